"""The list of all pools of a namespace or of a cluster, or the reason why there is none."""

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tandem_operator.api import GROUP, InferencePool, InvalidPoolError, parse_pool
from tandem_operator.cli.command_errors import FailedError

if TYPE_CHECKING:
    from tandem_operator.kube.client import Kube

Object = Mapping[str, Any]
NO_CRD = (
    f"the cluster does not know InferencePools of {GROUP}; install the chart tandem, or name"
    " another cluster with --context"
)


async def list_pools(kube: "Kube", namespace: str | None) -> list[dict[str, Any]]:
    """Return the pools in the order of their names; `None`: of all namespaces.

    This is one request, which the API server answers from memory.

    Raises:
        FailedError: the kind is not there, or its user may not list it.
    """
    from tandem_operator.kube.client import ApiServerError  # noqa: PLC0415
    from tandem_operator.kube.kinds import POOL  # noqa: PLC0415

    try:
        found = await kube.list(POOL, namespace=namespace, cached=True)
    except ApiServerError as error:
        if error.status == 404:
            raise FailedError(NO_CRD) from None
        if error.status == 403:
            raise FailedError(_forbidden(namespace, error.message)) from None
        raise
    return sorted(found, key=lambda each: (namespace_of(each), name_of(each)))


def _forbidden(namespace: str | None, message: str) -> str:
    if namespace is None:
        return (
            "you may not list InferencePools of all namespaces; name one of yours with -n, or ask"
            f" for the ClusterRole view ({message})"
        )
    return (
        f"you may not list InferencePools in namespace {namespace}; ask for the role view there,"
        f" or name another namespace with -n ({message})"
    )


def named(pools: Sequence[Object], patterns: Sequence[str]) -> list[Object]:
    """Return the pools whose name, or NAMESPACE/NAME, matches a pattern; all without patterns."""
    if not patterns:
        return list(pools)

    def matches(pool: Object) -> bool:
        names = (name_of(pool), f"{namespace_of(pool)}/{name_of(pool)}")
        return any(fnmatch.fnmatchcase(name, each) for name in names for each in patterns)

    return [pool for pool in pools if matches(pool)]


def readable(pools: Iterable[Object]) -> Iterator[InferencePool]:
    """Yield the pools with a readable spec; the condition Accepted of the others explains them."""
    for pool in pools:
        try:
            yield parse_pool(pool)
        except InvalidPoolError:
            continue


def name_of(obj: Object) -> str:
    """Return the name of an object."""
    return str((obj.get("metadata") or {}).get("name", ""))


def namespace_of(obj: Object) -> str:
    """Return the namespace of an object."""
    return str((obj.get("metadata") or {}).get("namespace") or "default")
