"""The cost of an attainment: one pool on one traffic, under other objectives."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tandem_operator.cli.experiments.experiment import Run, run
from tandem_operator.cli.experiments.policies import PolicyName, policy_for
from tandem_operator.cli.experiments.search import FleetPoint
from tandem_operator.cli.experiments.spread import NO_DIFFERENCE, Interval, difference, percent
from tandem_operator.cli.input.case import Case
from tandem_operator.cli.units import UNKNOWN, amount, fleet_name, share

TITLES = (
    *("objective", "Tandem attains", "GPU-hours", "difference", "over seeds"),
    *("fixed fleet", "its GPU-hours"),
)


@dataclass(frozen=True, slots=True)
class Objective:
    """One attainment, Tandem's runs for it by seed, and the smallest fixed fleet that keeps it.

    Attributes:
        fixed: for the first traffic; `None` if it was not searched, or if no fleet keeps it.
    """

    attainment: float
    runs: tuple[Run, ...]
    fixed: FleetPoint | None = None

    @property
    def gpu_hours(self) -> float:
        """Return the mean over the seeds."""
        return sum(each.report.gpu_hours for each in self.runs) / len(self.runs)

    @property
    def attained(self) -> float:
        """Return the mean over the seeds."""
        return sum(each.report.attainment for each in self.runs) / len(self.runs)


@dataclass(frozen=True, slots=True)
class BudgetTable:
    """Objectives by their attainment, the pool's own among them."""

    own: float
    objectives: tuple[Objective, ...]

    @property
    def of_own(self) -> Objective:
        """Return the pool's own objective."""
        return next(each for each in self.objectives if each.attainment == self.own)

    def more(self, objective: Objective) -> Interval | None:
        """Return the GPU-hours that an objective takes beyond the pool's own."""
        return difference(*([r.report.gpu_hours for r in o.runs] for o in (objective, self.of_own)))


def stripped(found: Run) -> Run:
    """Return the run without its requests: those of many runs would take all the memory."""
    return replace(found, flights=())


def held_to(case: Case, attainment: float) -> Case:
    """Return the case with another objective."""
    return replace(case, spec=replace(case.spec, slo=replace(case.spec.slo, attainment=attainment)))


def budget_of(
    cases: Sequence[Case],
    own_runs: Sequence[Run],
    *,
    targets: Sequence[float],
    on_progress: Callable[[float], None],
    fixed: Mapping[float, FleetPoint | None] | None = None,
) -> BudgetTable:
    """Return the table of a pool whose own runs are known: a case and a run for each seed."""
    own = cases[0].spec.slo.attainment
    fleets = {} if fixed is None else fixed
    found = []
    for target in sorted({own, *targets}):
        if target == own:
            runs = tuple(map(stripped, own_runs))
        else:
            runs = tuple(_run(held_to(case, target), on_progress) for case in cases)
        found.append(Objective(target, runs, fleets.get(target)))
    return BudgetTable(own, tuple(found))


def _run(case: Case, on_progress: Callable[[float], None]) -> Run:
    done = stripped(run(case, policy_for(PolicyName.TANDEM, case)))
    on_progress(1.0)
    return done


def rows(found: BudgetTable) -> Iterator[tuple[str, ...]]:
    """Yield each objective as text."""
    base = found.of_own.gpu_hours
    for each in found.objectives:
        is_own = each.attainment == found.own
        more = each.gpu_hours - base
        yield (
            f"{_share(each.attainment)}{', its own' if is_own else ''}",
            share(each.attained),
            amount(each.gpu_hours),
            "" if is_own else f"{more:+.2f}",
            "" if is_own else percent(found.more(each), base),
            UNKNOWN if each.fixed is None else fleet_name(each.fixed.fleet),
            UNKNOWN if each.fixed is None else amount(each.fixed.run.report.gpu_hours),
        )


def sentences(found: BudgetTable) -> Iterator[str]:
    """Yield what each other objective costs, or saves, compared with the pool's own."""
    base = found.of_own.gpu_hours
    for each in found.objectives:
        if each.attainment == found.own:
            continue
        what = f"{_share(each.attainment)} instead of {_share(found.own)}"
        more, spread = each.gpu_hours - base, found.more(each)
        if spread is None:
            yield f"{what}: {more:+.2f} GPU-hours on this traffic alone, which may be chance."
        elif spread.none_at_all:
            yield f"{what} changes no GPU-hours here."
        elif not spread.shown:
            yield f"{what}: {NO_DIFFERENCE} ({_over(spread, base)})."
        else:
            costs = "costs" if more > 0.0 else "spares"
            yield f"{what} {costs} {amount(abs(more))} GPU-hours ({_over(spread, base)})."
        if each.attained < each.attainment:
            yield f"At {_share(each.attainment)} it attains {share(each.attained)} on average."


def _over(spread: Interval, base: float) -> str:
    ends = percent(spread, base).removesuffix(": none shown")
    return f"{ends} over {spread.seeds} seeds"


def to_json(found: BudgetTable) -> list[dict[str, Any]]:
    """Return the table for programs."""
    rows = []
    for each in found.objectives:
        more = found.more(each)
        rows.append(
            {
                "attainment": each.attainment,
                "attained": each.attained,
                "gpu_hours": each.gpu_hours,
                "gpu_hours_by_seed": [run.report.gpu_hours for run in each.runs],
                "difference": None if more is None else more.to_json(),
                "fixed_fleet": None if each.fixed is None else fleet_name(each.fixed.fleet),
                "fixed_gpu_hours": (
                    None if each.fixed is None else each.fixed.run.report.gpu_hours
                ),
            }
        )
    return rows


def _share(value: float) -> str:
    return f"{100.0 * value:g}%"
