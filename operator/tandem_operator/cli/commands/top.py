"""`tandem top`: all pools at a glance, refreshed again and again."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from tandem_operator.cli.command_errors import BadInputError, FailedError
from tandem_operator.cli.commands.command import spelled_out
from tandem_operator.cli.input.cluster_access import (
    CLUSTER,
    ClusterOptions,
    connected,
    plain_errors,
)
from tandem_operator.cli.input.options import OUTPUT
from tandem_operator.cli.input.pool_completion import pool_names
from tandem_operator.cli.input.pool_list import list_pools, named
from tandem_operator.cli.output.destination import STANDARD_OUTPUT, screen, write_json
from tandem_operator.cli.output.pool_row import PoolRow, RowOrder, in_order, row_of
from tandem_operator.cli.output.pool_table import pool_table
from tandem_operator.cli.output.printable import printable
from tandem_operator.cli.units import age, seconds

LEAST_INTERVAL_S = 0.5


class TopFormat(StrEnum):
    """The form of the pools."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class PoolView:
    """The pools to show, and their form.

    Attributes:
        namespace: their namespace; `None`: all namespaces.
    """

    namespace: str | None
    patterns: Sequence[str]
    order: RowOrder
    wide: bool

    def rows(self, pools: Sequence[Mapping[str, Any]]) -> list[PoolRow]:
        """Return the rows of the chosen pools, in the chosen order."""
        return in_order([row_of(pool) for pool in named(pools, self.patterns)], self.order)

    def drawn(self, rows: Sequence[PoolRow], *, now_s: float) -> RenderableType:
        """Return the rows as a table; a sentence if there is none."""
        if rows:
            every = self.namespace is None
            return pool_table(rows, now_s=now_s, wide=self.wide, with_namespace=every)
        where = "any namespace" if self.namespace is None else f"namespace {self.namespace}"
        like = f" named {' or '.join(self.patterns)}" if self.patterns else ""
        more = "" if self.namespace is None else "; -A looks into all namespaces"
        return Text(printable(f"There is no InferencePool{like} in {where}{more}."))


@spelled_out
def top(
    *,
    pools: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[POOL...]",
            help="Names of pools, or patterns such as 'chat-*'; all if left out.",
            show_default=False,
            autocompletion=pool_names,
        ),
    ] = None,
    cluster: ClusterOptions,
    all_namespaces: Annotated[
        bool,
        typer.Option(
            "--all-namespaces", "-A", help="Pools of all namespaces.", rich_help_panel=CLUSTER
        ),
    ] = False,
    output: Annotated[
        TopFormat,
        typer.Option(
            "--output",
            "-o",
            help="The format: a table, one with more columns and whole sentences, or one JSON"
            " object.",
            rich_help_panel=OUTPUT,
        ),
    ] = TopFormat.TABLE,
    sort: Annotated[
        RowOrder,
        typer.Option(
            help="The figure to sort by, the worst or highest first.", rich_help_panel=OUTPUT
        ),
    ] = RowOrder.NAME,
    interval: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="The time between two looks.", rich_help_panel=OUTPUT
        ),
    ] = "2s",
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="Look once. The command always looks once for JSON, or if the output is not a"
            " terminal.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
) -> None:
    """Show all pools: replicas, TTFT and TPOT beside their bounds, attainment, last decisions.

    Reads the status of pools, one list for each look; changes nothing. Ctrl-C ends it.
    """
    if all_namespaces and cluster.namespace is not None:
        raise BadInputError("-A and -n exclude each other; leave out one")
    every_s = seconds("--interval", interval)
    if every_s < LEAST_INTERVAL_S:
        raise BadInputError(f"--interval must be at least {LEAST_INTERVAL_S:g}s; got {interval}")
    console = screen()
    live = not once and output is not TopFormat.JSON and console.is_terminal
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(
            _top(
                cluster,
                view=lambda namespace: PoolView(
                    namespace=None if all_namespaces else namespace,
                    patterns=tuple(pools or ()),
                    order=sort,
                    wide=output is TopFormat.WIDE,
                ),
                show=partial(_watch, console, every_s) if live else partial(_show, console, output),
            )
        )


Look = Callable[[], Awaitable[list[PoolRow]]]


async def _top(
    cluster: ClusterOptions,
    *,
    view: Callable[[str], PoolView],
    show: Callable[[PoolView, Look], Awaitable[None]],
) -> None:
    async with connected(cluster.where("")) as (kube, namespace):
        chosen = view(namespace)

        async def look() -> list[PoolRow]:
            with plain_errors():
                return chosen.rows(await list_pools(kube, chosen.namespace))

        await show(chosen, look)


async def _show(console: Console, output: TopFormat, view: PoolView, look: Look) -> None:
    rows, now_s = await look(), time.time()
    if output is TopFormat.JSON:
        write_json(STANDARD_OUTPUT, {"pools": [row.to_json(now_s=now_s) for row in rows]})
    else:
        console.print(view.drawn(rows, now_s=now_s))


async def _watch(console: Console, every_s: float, view: PoolView, look: Look) -> None:
    """Redraw each look in place; a look that fails leaves the last one there."""
    rows, seen_s = await look(), time.time()
    fault: str | None = None
    with Live(console=console, auto_refresh=False) as live:
        while True:
            now_s = time.time()
            head = Text(time.strftime("%H:%M:%S", time.localtime(now_s)), style="dim")
            if fault is not None:
                head = Text(printable(f"{fault}; shown as {age(now_s - seen_s)} ago"), style="red")
            live.update(Group(head, view.drawn(rows, now_s=now_s)), refresh=True)
            await asyncio.sleep(every_s)
            try:
                rows, seen_s, fault = await look(), time.time(), None
            except FailedError as error:
                fault = str(error)
