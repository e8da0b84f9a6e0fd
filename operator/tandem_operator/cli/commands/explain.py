"""`tandem explain POOL`: why a pool has the replicas it has, from the cluster or a saved object."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from tandem_operator.cli.command_errors import BadInputError
from tandem_operator.cli.commands.command import spelled_out
from tandem_operator.cli.input.cluster_access import CLUSTER, ClusterOptions, Where
from tandem_operator.cli.input.options import OUTPUT, JsonOption
from tandem_operator.cli.input.pool_evidence import Evidence, from_file, gather
from tandem_operator.cli.output.destination import check_outputs, screen, write_json
from tandem_operator.cli.output.explained import show, to_json

LOOK_EVERY_S = 5.0


@spelled_out
def explain(
    *,
    pool: Annotated[
        str | None,
        typer.Argument(metavar="POOL", help="Name of the InferencePool.", show_default=False),
    ] = None,
    cluster: ClusterOptions,
    file: Annotated[
        Path | None,
        typer.Option(
            help="Explain what `kubectl get -o yaml` has saved, Events and ConfigMap included if"
            " they are in it; - for standard input.",
            show_default=False,
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", "-w", help="Go on, and tell each new decision.", rich_help_panel=CLUSTER
        ),
    ] = False,
    events: Annotated[
        int, typer.Option(help="How many Events to show.", rich_help_panel=OUTPUT)
    ] = 10,
    json: JsonOption = None,
) -> None:
    """Explain the replica counts of a pool, its measurements, and how to correct what is wrong.

    Reads status, Events and the operator's memory of the pool; changes nothing.
    """
    check_outputs({"--json": json}, inputs={"--file": file, "--kubeconfig": cluster.kubeconfig})
    if events < 0:
        raise BadInputError(f"--events must be at least 0; got {events}")
    if file is not None:
        if watch:
            raise BadInputError("--watch needs a cluster; leave out --file")
        for option, value in (
            ("--context", cluster.context),
            ("--kubeconfig", cluster.kubeconfig),
        ):
            if value is not None:
                raise BadInputError(f"{option} needs a cluster; leave out --file")
        _tell(from_file(file, pool, cluster.namespace), events, json)
        return
    if pool is None:
        raise BadInputError("name a pool, such as `tandem explain qwen`, or give --file")
    where = cluster.where(pool)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_follow(where, watch, lambda found: _tell(found, events, json)))


async def _follow(where: Where, watch: bool, tell: Callable[[Evidence], None]) -> None:
    async with gather(where) as look:
        await _each(look, tell, watch)


async def _each(
    look: Callable[[], Awaitable[Evidence]], tell: Callable[[Evidence], None], watch: bool
) -> None:
    said = None
    while True:
        found = await look()
        if found.news != said:
            tell(found)
            said = found.news
        if not watch:
            return
        await asyncio.sleep(LOOK_EVERY_S)


def _tell(found: Evidence, events: int, json: str | None) -> None:
    show(screen(json), found, events=events)
    write_json(json, to_json(found))
