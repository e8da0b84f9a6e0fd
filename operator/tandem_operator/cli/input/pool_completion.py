"""The names of live pools for completion in the shell, by the options before them."""

import asyncio
from pathlib import Path

import typer

from tandem_operator.cli.command_errors import FailedError
from tandem_operator.cli.input.cluster_access import ClusterOptions, connected, plain_errors
from tandem_operator.cli.input.pool_list import list_pools, name_of

PATIENCE_S = 3.0


def pool_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names that begin so; none if pools cannot be listed: a shell shows no sentence."""
    given = ctx.params
    kubeconfig = given.get("kubeconfig")
    cluster = ClusterOptions(
        namespace=given.get("namespace"),
        context=given.get("context"),
        kubeconfig=None if kubeconfig is None else Path(kubeconfig),
    )
    try:
        found = asyncio.run(_names(cluster, everywhere=bool(given.get("all_namespaces"))))
    except (FailedError, TimeoutError):
        return []
    return [name for name in found if name.startswith(incomplete)]


async def _names(cluster: ClusterOptions, *, everywhere: bool) -> list[str]:
    async with asyncio.timeout(PATIENCE_S), connected(cluster.where("")) as (kube, namespace):
        with plain_errors():
            pools = await list_pools(kube, None if everywhere else namespace)
    return sorted({name_of(each) for each in pools})
