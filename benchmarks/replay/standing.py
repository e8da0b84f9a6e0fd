"""The standing of Tandem against each other policy, trace by trace, and against its own target."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean

from benchmarks.replay.search import OBJECTIVE
from benchmarks.replay.simulate import Result
from benchmarks.replay.tables import Row, row_of


@dataclass(frozen=True, slots=True)
class Standing:
    """Tandem on one trace.

    Attributes:
        ahead_of_default: ahead of Dynamo's defaults on attainment and good requests per GPU-second.
        of_tuned: good requests per GPU-second over those of the best floor that reaches 95 %.
        ahead_of_near: ahead of the floor with the highest attainment below 95 %, on both.
        of_bound: good requests per GPU-second over the clairvoyant's.
        of_static: good requests per GPU-second over the best fixed fleet's.
        gpu_share: GPU-hours over those of the best fixed fleet.
    """

    ours: Row
    ahead_of_default: bool | None
    of_tuned: float | None
    ahead_of_near: bool | None
    of_bound: float | None
    of_static: float | None
    gpu_share: float | None


def standings(rows: Sequence[Row]) -> list[Standing]:
    """Return one standing for each trace and start-up time that Tandem ran."""
    return [_standing(row, rows) for row in rows if row.policy == "tandem"]


def _standing(ours: Row, rows: Sequence[Row]) -> Standing:
    mine = ours.result
    same = [row for row in rows if row.startup_s == ours.startup_s]
    default = row_of(same, ours.trace, "dynamo-default")
    fixed = row_of(same, ours.trace, "static-best")
    tuned = row_of(same, ours.trace, "dynamo-tuned")
    floors = [] if tuned is None else [result for _, result in tuned.found.tried]
    reached = [r for r in floors if r.attainment >= OBJECTIVE]
    below = [r for r in floors if r.attainment < OBJECTIVE]
    best = max((r.good_per_gpu_s for r in reached), default=None)
    return Standing(
        ours,
        None if default is None else _ahead(mine, default.result),
        None if best is None else mine.good_per_gpu_s / best,
        _ahead(mine, max(below, key=lambda r: r.attainment)) if below else None,
        ours.of_clairvoyant,
        None if fixed is None else mine.good_per_gpu_s / fixed.result.good_per_gpu_s,
        None if fixed is None else mine.gpu_s / fixed.result.gpu_s,
    )


def _ahead(one: Result, other: Result) -> bool:
    return one.attainment > other.attainment and one.good_per_gpu_s > other.good_per_gpu_s


def table(found: Sequence[Standing]) -> str:
    """Return the table: a line for each trace."""
    lines = [
        "| trace | start-up | attainment | ahead of Dynamo as it comes | / best floor >= .95 |"
        " ahead of the best floor below | / clairvoyant | / best static | its GPU-hours |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for each in found:
        cells = (
            each.ours.trace,
            f"{each.ours.startup_s:g} s",
            f"{each.ours.result.attainment:.3f}",
            _yes(each.ahead_of_default),
            _ratio(each.of_tuned),
            _yes(each.ahead_of_near),
            _ratio(each.of_bound),
            _ratio(each.of_static),
            _ratio(each.gpu_share),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _yes(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "NO"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def summary(found: Sequence[Standing]) -> str:
    """Return the means and the worst of each kind of trace."""
    lines = []
    groups = dict.fromkeys(
        (s.ours.startup_s, s.ours.recipe.kind, s.ours.recipe.unseen) for s in found
    )
    for startup_s, kind, unseen in groups:
        some = [
            s
            for s in found
            if (s.ours.startup_s, s.ours.recipe.kind, s.ours.recipe.unseen)
            == (startup_s, kind, unseen)
        ]
        attained = [s.ours.result.attainment for s in some]
        lines.append(
            f"start-up {startup_s:g} s, {len(some)} {'unseen ' if unseen else ''}{kind} traces: "
            f"attainment {mean(attained):.3f} in the mean, {min(attained):.3f} at worst"
            + _mean(", {:.2f} of the clairvoyant", some, lambda s: s.of_bound)
            + _mean(", {:.2f} of the best fixed fleet", some, lambda s: s.of_static)
            + _mean(" with {:.2f} of its GPU-hours", some, lambda s: s.gpu_share)
            + _mean(", {:.2f} of the best floor", some, lambda s: s.of_tuned)
        )
    return "\n".join(lines)


def _mean(text: str, some: Iterable[Standing], value: Callable[[Standing], float | None]) -> str:
    known = [found for found in map(value, some) if found is not None]
    return text.format(mean(known)) if known else ""
