"""`tandem explain POOL`: why a pool has the replicas it has, from the cluster or a saved object."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from tandem_operator.cli.command_errors import BadInputError, SilentClusterError
from tandem_operator.cli.commands.command import spelled_out
from tandem_operator.cli.input.cluster_access import CLUSTER, ClusterOptions, Where
from tandem_operator.cli.input.options import OUTPUT, JsonOption
from tandem_operator.cli.input.pool_completion import pool_names
from tandem_operator.cli.input.pool_evidence import LOOK_EVERY_S, Evidence, from_file, gather
from tandem_operator.cli.output.destination import check_outputs, paper, screen, write_json
from tandem_operator.cli.output.explained import show, to_json
from tandem_operator.cli.output.printable import printable

LEAST_S = 1.0
"""Least time between two looks: the numbers of a busy pool change with each pass."""


@spelled_out
def explain(
    *,
    pool: Annotated[
        str | None,
        typer.Argument(
            metavar="POOL",
            help="Name of the InferencePool.",
            show_default=False,
            autocompletion=pool_names,
        ),
    ] = None,
    cluster: ClusterOptions,
    file: Annotated[
        Path | None,
        typer.Option(
            help="A file saved by `kubectl get -o yaml`, with Events and ConfigMap if it has them;"
            " - for standard input.",
            show_default=False,
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            "-w",
            help="Show the explanation again when the pool changes. If the output is not a"
            " terminal, write each new decision.",
            rich_help_panel=CLUSTER,
        ),
    ] = False,
    events: Annotated[
        int, typer.Option(help="The number of Events to show.", rich_help_panel=OUTPUT)
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
        _tell(from_file(file, pool, cluster.namespace), events=events, json=json)
        return
    if pool is None:
        raise BadInputError("name a pool, such as `tandem explain qwen`, or give --file")
    where = cluster.where(pool)
    console = screen(json)
    told = partial(_tell, events=events, json=json)
    with contextlib.suppress(KeyboardInterrupt):
        if watch and json is None and console.is_terminal:
            asyncio.run(_watch(where, console, events))
        else:
            asyncio.run(_follow(where, watch, told))


async def _follow(where: Where, watch: bool, tell: Callable[[Evidence], None]) -> None:
    """Show the whole explanation again after each new decision."""
    async with gather(where) as lookout:
        found = await lookout.look()
        tell(found)
        while watch:
            said = found.news
            await lookout.changed()
            found = await lookout.look()
            if found.news != said:
                tell(found)


async def _watch(where: Where, console: Console, events: int) -> None:
    """Redraw the explanation in place whenever the pool changes; leave the last one."""
    async with gather(where) as lookout:
        found = await lookout.look()
        try:
            with Live(console=console, screen=True, auto_refresh=False) as live:
                fault = ""
                while True:
                    live.update(_page(console, found, events, fault), refresh=True)
                    try:
                        await asyncio.gather(lookout.changed(), asyncio.sleep(LEAST_S))
                        found, fault = await lookout.look(), ""
                    except SilentClusterError as error:
                        fault = f"{error}; shown as it was before"
                        await asyncio.sleep(LOOK_EVERY_S)
        finally:
            show(console, found, events=events)


def _page(console: Console, found: Evidence, events: int, fault: str) -> Group:
    """Return as much of the explanation as the console has room for, below a line with its age."""
    sheet = paper(console)
    with sheet.capture() as drawn:
        show(sheet, found, events=events)
    now = time.strftime("%H:%M:%S")
    head = Text(f"{now}, Ctrl-C ends", style="dim")
    if fault:
        head = Text(printable(f"{now}, {fault}"), style="red")
    return Group(head, Text.from_ansi(drawn.get()))


def _tell(found: Evidence, *, events: int, json: str | None) -> None:
    show(screen(json), found, events=events)
    write_json(json, to_json(found))
