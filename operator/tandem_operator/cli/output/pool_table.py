"""The table of `tandem top`: the figures of every pool, then the last decision of each."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tandem_operator.cli.output.figure_table import FigureTable
from tandem_operator.cli.output.pool_row import FleetRow, PoolRow, Urgency
from tandem_operator.cli.output.printable import printable
from tandem_operator.cli.units import UNKNOWN, age, amount, latency

STYLES = {Urgency.FINE: None, Urgency.LOOK: "yellow", Urgency.DOWN: "red"}
TITLES = (
    "pool",
    "state",
    "prefill ready/wanted/max",
    "decode ready/wanted/max",
    "TTFT p95",
    "bound",
    "TPOT p95",
    "bound",
    "attain- ment",
    "objec- tive",
    "budget left",
    "requests /s",
    "GPUs",
)
MORE_TITLES = (
    "budget left 30d",
    "goodput",
    "goodput /GPU",
    "prefill used",
    "decode used",
    "cost /hour",
    "mode",
    "most misses",
)


def pool_table(
    rows: Sequence[PoolRow], *, now_s: float, wide: bool, with_namespace: bool
) -> RenderableType:
    """Return the whole table; `wide`: nothing is left out or cut."""
    names = [
        printable(f"{row.namespace}/{row.name}" if with_namespace else row.name) for row in rows
    ]
    titles = (*TITLES, *MORE_TITLES) if wide else TITLES
    cells = [
        (name, *_cells(row, wide=wide), *(_more(row) if wide else ()))
        for name, row in zip(names, rows, strict=True)
    ]
    figures = FigureTable(titles, cells, styles=[STYLES[row.urgency] for row in rows])
    decisions = _decisions(names, rows, now_s=now_s, wide=wide)
    return Group(figures, Text(""), Text("last decisions", style="bold"), decisions)


def _decisions(names: Sequence[str], rows: Sequence[PoolRow], *, now_s: float, wide: bool) -> Table:
    ages = [
        UNKNOWN if row.decided_s is None else f"{age(now_s - row.decided_s)} ago" for row in rows
    ]
    table = Table.grid(padding=(0, 2))
    for column in (names, ages):
        table.add_column(no_wrap=True, min_width=max(map(cell_len, column), default=0))
    table.add_column(no_wrap=not wide, overflow="fold" if wide else "ellipsis")
    for name, when, row in zip(names, ages, rows, strict=True):
        why = "no decision yet" if row.sentence is None else printable(row.sentence)
        table.add_row(Text(name), Text(when), Text(why))
    return table


def _cells(row: PoolRow, *, wide: bool) -> tuple[str, ...]:
    slo = row.slo
    ttft = tpot = objective = UNKNOWN
    if slo is not None:
        per = slo.ttft_s_per_thousand_prompt_tokens
        ttft = latency(slo.ttft_s) + (f"+{latency(per)}/k" if per else "")
        tpot, objective = latency(slo.tpot_s), f"{100.0 * slo.attainment:g}%"
    figures = (
        *(_fleet(fleet) for fleet in row.fleets.values()),
        *(row.ttft_p95, ttft, row.tpot_p95, tpot, row.attainment, objective, row.budget_left),
        amount(row.requests_per_s),
        UNKNOWN if row.gpus is None else str(row.gpus),
    )
    return (_state(row, wide=wide), *(printable(each or UNKNOWN) for each in figures))


def _state(row: PoolRow, *, wide: bool) -> str:
    first, *others = row.state
    told = ", ".join(row.state) if wide or not others else f"{first} +{len(others)}"
    return printable(told)


def _fleet(fleet: FleetRow) -> str:
    counts = (fleet.ready, fleet.wanted, fleet.most)
    return "/".join(UNKNOWN if count is None else str(count) for count in counts)


def _more(row: PoolRow) -> tuple[str, ...]:
    cause = max(sorted(row.blame), key=lambda each: row.blame[each], default=None)
    used = (fleet.used for fleet in row.fleets.values())
    goodput = (row.goodput, row.goodput_per_gpu)
    figures = (row.budget_left_30d, *goodput, *used, row.cost_per_hour, row.mode, cause)
    return tuple(printable(each or UNKNOWN) for each in figures)
