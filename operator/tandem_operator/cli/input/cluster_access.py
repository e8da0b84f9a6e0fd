"""Access to a cluster with the user's rights: which cluster, and errors in plain words."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tandem_operator.cli.command_errors import FailedError, SilentClusterError

if TYPE_CHECKING:
    from tandem_operator.kube.client import Kube

CLUSTER = "Cluster"


@dataclass(frozen=True, slots=True)
class Where:
    """One pool of one cluster."""

    pool: str
    namespace: str | None
    context: str | None
    kubeconfig: Path | None


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster, and the namespace in it."""

    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Namespace of the pool; that of the context if left out.",
            rich_help_panel=CLUSTER,
            show_default=False,
        ),
    ] = None
    context: Annotated[
        str | None,
        typer.Option(
            help="Context of the kubeconfig.", rich_help_panel=CLUSTER, show_default=False
        ),
    ] = None
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Kubeconfig; $KUBECONFIG or ~/.kube/config if left out.",
            rich_help_panel=CLUSTER,
            show_default=False,
        ),
    ] = None

    @property
    def given(self) -> str | None:
        """Return an option that was given, if there is one."""
        options = {
            "--namespace": self.namespace,
            "--context": self.context,
            "--kubeconfig": self.kubeconfig,
        }
        return next((option for option, value in options.items() if value is not None), None)

    def where(self, pool: str) -> Where:
        """Return the place of that pool of this cluster."""
        return Where(pool, self.namespace, self.context, self.kubeconfig)


@contextlib.asynccontextmanager
async def connected(where: Where) -> AsyncIterator[tuple["Kube", str]]:
    """Yield the cluster, and the chosen namespace.

    Raises:
        FailedError: there is no cluster to ask.
    """
    # The client takes half a second to import, which other commands should not wait for.
    from kubernetes.aio.config import ConfigException  # noqa: PLC0415

    from tandem_operator.kube.client import connect, usual_namespace  # noqa: PLC0415

    config_file = None if where.kubeconfig is None else str(where.kubeconfig)
    try:
        namespace = where.namespace or usual_namespace(config_file, where.context)
        kube = await connect(config_file=config_file, context=where.context)
    except (ConfigException, OSError) as error:
        raise FailedError(f"no cluster to ask: {error}") from None
    try:
        yield kube, namespace
    finally:
        await kube.close()


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Turn a refusal of an API server, or its silence, into one sentence."""
    import aiohttp  # noqa: PLC0415

    from tandem_operator.kube.client import ApiServerError  # noqa: PLC0415

    try:
        yield
    except ApiServerError as error:
        raise FailedError(f"the API server refused: {error.message}") from None
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        why = str(error) or type(error).__name__
        raise SilentClusterError(f"the API server does not answer: {why}") from None
