"""The results of a plan, as data, sentences and rows of text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tandem_operator.cli.experiments import objective_costs
from tandem_operator.cli.experiments.experiment import Run
from tandem_operator.cli.experiments.objective_costs import BudgetTable
from tandem_operator.cli.experiments.overspent import overspent
from tandem_operator.cli.experiments.search import FleetPoint
from tandem_operator.cli.input.case import Case
from tandem_operator.cli.input.oversize import Oversize
from tandem_operator.cli.output.tables import case_json, slo_json
from tandem_operator.cli.units import amount, fleet_name, latency, share
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo

FLEET_TITLES = (
    *("fleet", "GPUs", "keeps the SLO", "attainment", "TTFT p95", "TPOT p95"),
    *("tokens/s per GPU", "GPU-hours / M tokens", "cost / M tokens"),
)
CHANGE_TITLES = ("SLO", "fleet", "GPUs", "difference", "attainment", "cost / M tokens")


@dataclass(frozen=True, slots=True)
class SloChange:
    """Another SLO and the smallest fleet for it; `None`: no fleet within the bounds keeps it."""

    name: str
    slo: Slo
    point: FleetPoint | None


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    """All results of a plan.

    Attributes:
        cheapest: the smallest fleet for the pool's own SLO.
        largest: the largest fleet that the replica bounds allow.
        points: every fleet that was run for it, smallest first.
        tandem: the run of the live core on the same traffic.
        budget: the cost of other attainments.
    """

    case: Case
    cheapest: FleetPoint | None
    largest: FleetPoint
    points: tuple[FleetPoint, ...]
    changes: tuple[SloChange, ...]
    tandem: Run
    budget: BudgetTable


def frontiers(points: Sequence[FleetPoint]) -> dict[str, list[FleetPoint]]:
    """Return by latency the fleets that no other beats in both p95 and tokens per GPU-second."""
    found: dict[str, list[FleetPoint]] = {}
    for name in ("TTFT", "TPOT"):
        best: list[FleetPoint] = []
        known = [point for point in points if p95_s(point, name) is not None]
        for point in sorted(known, key=lambda p: (-p.tokens_per_gpu_s, p95_s(p, name) or 0.0)):
            if not best or (p95_s(point, name) or 0.0) < (p95_s(best[-1], name) or 0.0):
                best.append(point)
        found[name] = best
    return found


def p95_s(point: FleetPoint, name: str) -> float | None:
    """Return the p95 of TTFT or TPOT."""
    report = point.run.report
    return (report.ttft_s if name == "TTFT" else report.tpot_s)["p95"]


def answer(found: CapacityPlan) -> str:
    """Return the plan in a sentence."""
    case, cheapest = found.case, found.cheapest
    slo = case.spec.slo
    if (barred := _barred(found)) is not None:
        return barred.answer
    if cheapest is None:
        largest = found.largest
        text = (
            f"No fleet within the replica bounds keeps the SLO; the largest,"
            f" {fleet_name(largest.fleet)}, reaches {share(largest.attainment)}"
        )
        needed = [
            f"a {name} target of {latency(needed_s)}"
            for name, needed_s, bound_s in (
                ("TTFT", largest.ttft_needed_s, slo.ttft_s),
                ("TPOT", largest.tpot_needed_s, slo.tpot_s),
            )
            if needed_s is not None and needed_s > bound_s
        ]
        return f"{text}; it would keep {' and '.join(needed)}." if needed else f"{text}."
    over = "" if cheapest.within else f", more than gpuBudget {case.spec.gpu_budget}"
    cost = cheapest.run.cost_per_million_tokens
    price = "" if cost is None else f", {amount(cost)} per million output tokens"
    mean = found.tandem.mean_gpus
    return (
        f"{fleet_name(cheapest.fleet)} is the smallest fixed fleet that keeps the SLO:"
        f" {cheapest.gpus} GPUs{over}, {share(cheapest.attainment)} attainment{price}."
        f" Tandem would hold {amount(mean)} GPUs on average ({found.tandem.most_gpus} at most)"
        f" at {share(found.tandem.report.attainment)}."
    )


def asked_for(found: CapacityPlan) -> Iterator[str]:
    """Yield whether Tandem buys more than the SLO asks for."""
    if found.cheapest is not None and (said := overspent(found.tandem, found.cheapest.run)):
        yield said


def _barred(found: CapacityPlan) -> Oversize | None:
    """Return the requests that are too long, if only these break the SLO."""
    oversize = found.case.oversize
    if oversize is None or oversize.most_attainment >= found.case.spec.slo.attainment:
        return None
    return oversize


def near(found: CapacityPlan) -> list[FleetPoint]:
    """Return the fleets worth showing, without those that only showed one role's own need."""
    middle = found.largest if found.cheapest is None else found.cheapest
    return [
        point
        for point in found.points
        if all(count <= 2 * middle.fleet[role] + 1 for role, count in point.fleet.items())
    ]


def runs_by_name(found: CapacityPlan) -> dict[str, Run]:
    """Return the runs whose results are shown by tenant."""
    cheapest = found.cheapest
    fixed = {} if cheapest is None else {fleet_name(cheapest.fleet): cheapest.run}
    return {**fixed, "Tandem": found.tandem}


def fleet_cells(point: FleetPoint) -> tuple[str, ...]:
    """Return one fleet as text."""
    report = point.run.report
    meets = "yes" if point.meets else "no"
    return (
        fleet_name(point.fleet),
        f"{point.gpus}",
        meets if point.within else f"{meets}, over budget",
        share(point.attainment),
        latency(report.ttft_s["p95"]),
        latency(report.tpot_s["p95"]),
        amount(point.tokens_per_gpu_s),
        amount(point.run.hours_per_million_tokens),
        amount(point.run.cost_per_million_tokens),
    )


def tandem_cells(tandem: Run) -> tuple[str, ...]:
    """Return Tandem's run as a row among fleets."""
    report = tandem.report
    held_s = sum(report.gpu_seconds.values())
    return (
        "Tandem",
        f"{amount(tandem.mean_gpus)} mean",
        "yes" if report.attainment >= tandem.case.spec.slo.attainment else "no",
        share(report.attainment),
        latency(report.ttft_s["p95"]),
        latency(report.tpot_s["p95"]),
        amount(report.output_tokens / held_s if held_s else None),
        amount(tandem.hours_per_million_tokens),
        amount(tandem.cost_per_million_tokens),
    )


def change_rows(found: CapacityPlan) -> Iterator[tuple[str, ...]]:
    """Yield each step of the SLO as text, the SLO itself first."""
    own = SloChange("as it is", found.case.spec.slo, found.cheapest)
    none = "none within the bounds" if _barred(found) is None else "none at all"
    for change in (own, *found.changes):
        point = change.point
        if point is None:
            yield (change.name, none, "-", "-", "-", "-")
            continue
        more = 0 if found.cheapest is None else point.gpus - found.cheapest.gpus
        yield (
            change.name,
            fleet_name(point.fleet),
            f"{point.gpus}" if point.within else f"{point.gpus}, over budget",
            f"{more:+d}" if more else "",
            share(point.attainment),
            amount(point.run.cost_per_million_tokens),
        )


def to_json(found: CapacityPlan) -> dict[str, Any]:
    """Return the plan for programs."""
    frontier = {
        name.lower(): [fleet_name(point.fleet) for point in points]
        for name, points in frontiers(near(found)).items()
    }
    return {
        **case_json(found.case),
        "answer": answer(found),
        "cheapest": (
            None
            if found.cheapest is None
            else {**_point_json(found.cheapest), **found.cheapest.run.report.tenants_json()}
        ),
        "fleets": [_point_json(point) for point in found.points],
        "frontier": frontier,
        "slo_changes": [
            {
                "name": change.name,
                "slo": slo_json(change.slo),
                "cheapest": None if change.point is None else _point_json(change.point),
                "gpus_difference": (
                    None
                    if change.point is None or found.cheapest is None
                    else change.point.gpus - found.cheapest.gpus
                ),
            }
            for change in found.changes
        ],
        "budget": objective_costs.to_json(found.budget),
        "tandem": found.tandem.to_json(),
    }


def _point_json(point: FleetPoint) -> dict[str, Any]:
    report = point.run.report
    return {
        "fleet": fleet_name(point.fleet),
        **{role.value: point.fleet[role] for role in Role},
        "gpus": point.gpus,
        "within_budget": point.within,
        "meets": point.meets,
        "attainment": point.attainment,
        "ttft_p95_s": report.ttft_s["p95"],
        "tpot_p95_s": report.tpot_s["p95"],
        "output_tokens_per_gpu_s": point.tokens_per_gpu_s,
        "good_per_gpu_s": report.good_per_gpu_s,
        "gpu_hours": report.gpu_hours,
        "gpu_hours_per_million_output_tokens": point.run.hours_per_million_tokens,
        "cost_per_million_output_tokens": point.run.cost_per_million_tokens,
    }
