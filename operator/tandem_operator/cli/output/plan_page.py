"""`tandem plan` as a page: the frontier of latency and throughput, fleets, and other SLOs."""

from collections.abc import Iterator

from tandem_operator.cli.experiments.objective_costs import TITLES as BUDGET_TITLES
from tandem_operator.cli.experiments.objective_costs import rows as budget_rows
from tandem_operator.cli.experiments.objective_costs import sentences
from tandem_operator.cli.experiments.search import FleetPoint
from tandem_operator.cli.output.chart import Axis, Chart
from tandem_operator.cli.output.page import render
from tandem_operator.cli.output.plan_tables import (
    CHANGE_TITLES,
    FLEET_TITLES,
    CapacityPlan,
    answer,
    change_rows,
    fleet_cells,
    frontiers,
    near,
    p95_s,
    runs_by_name,
    tandem_cells,
)
from tandem_operator.cli.output.simulation_page import bin_width_s, rate_chart, replica_chart
from tandem_operator.cli.output.tables import case_lines
from tandem_operator.cli.output.tenant_tables import TITLES as TENANT_TITLES
from tandem_operator.cli.output.tenant_tables import tenant_rows
from tandem_operator.cli.units import amount, fleet_name, latency, share

ROOM_FOR_NAMES = 1.2


def plan_page(found: CapacityPlan) -> str:
    """Return the page."""
    case = found.case
    width_s = bin_width_s(case)
    fleets = [*map(fleet_cells, near(found)), tandem_cells(found.tandem)]
    return render(
        "plan.html",
        title=f"Tandem: fleets for {case.name}",
        lines=case_lines(case),
        notes=case.notes,
        answer=answer(found),
        frontiers=_frontier_charts(found),
        changes=(CHANGE_TITLES, change_rows(found)),
        budget=(BUDGET_TITLES, budget_rows(found.budget)),
        budget_sentences=sentences(found.budget),
        fleets=(FLEET_TITLES, fleets),
        tenants=(TENANT_TITLES, tenant_rows(runs_by_name(found))),
        width_s=width_s,
        traffic=rate_chart(case, width_s),
        replicas=replica_chart(found.tandem),
    )


def _frontier_charts(found: CapacityPlan) -> Iterator[tuple[str, Chart]]:
    slo = found.case.spec.slo
    requests = found.case.trace.requests
    prompt = sum(r.prompt_tokens for r in requests) / max(1, len(requests))
    bounds = {"TTFT": slo.ttft_bound_s(prompt), "TPOT": slo.tpot_s}
    for name, frontier in frontiers(near(found)).items():
        yield name, _frontier_chart(found, frontier, name, bounds[name])


def _frontier_chart(
    found: CapacityPlan, frontier: list[FleetPoint], name: str, bound_s: float
) -> Chart:
    points = [(p, at) for p in near(found) if (at := p95_s(p, name)) is not None]
    report = found.tandem.report
    tandem_s = (report.ttft_s if name == "TTFT" else report.tpot_s)["p95"]
    held_s = sum(report.gpu_seconds.values())
    tandem_x = report.output_tokens / held_s if held_s else 0.0
    heights = [at for _, at in points] + [bound_s, tandem_s or bound_s]
    widest = max([tandem_x, *(p.tokens_per_gpu_s for p, _ in points)], default=1.0)
    chart = Chart(
        f"{name} p95 against throughput",
        x=Axis(low=0.0, high=max(1.0, ROOM_FOR_NAMES * widest), unit=""),
        y=Axis(low=max(1e-4, min(heights)) / 1.4, high=max(heights) * 1.4, unit="s", log=True),
        height=300.0,
    )
    edge = [(p.tokens_per_gpu_s, p95_s(p, name) or 0.0) for p in frontier]
    chart.line([(0.0, bound_s), (ROOM_FOR_NAMES * widest, bound_s)], css="bound").line(
        edge, css="frontier"
    )
    for css, meets in (("misses", False), ("meets", True)):
        chart.dots(
            ((p.tokens_per_gpu_s, at, _summary(p)) for p, at in points if p.meets is meets),
            css=css,
            radius=5.0,
        )
    if found.cheapest is not None:
        x, y = found.cheapest.tokens_per_gpu_s, p95_s(found.cheapest, name) or 0.0
        chart.dots([(x, y, _summary(found.cheapest))], css="chosen", radius=9.0)
        smallest = f"{fleet_name(found.cheapest.fleet)}, the smallest"
        chart.names([(x, y, smallest)], css="name", needed=True)
    if tandem_s is not None:
        summary = (
            f"Tandem: {amount(found.tandem.mean_gpus)} GPUs on average,"
            f" {share(report.attainment)} attainment"
        )
        chart.dots([(tandem_x, tandem_s, summary)], css="tandem", radius=6.0)
        chart.names([(tandem_x, tandem_s, "Tandem")], css="name", needed=True)
    return chart.names(
        (
            (p.tokens_per_gpu_s, p95_s(p, name) or 0.0, fleet_name(p.fleet))
            for p in frontier
            if p != found.cheapest
        ),
        css="name soft",
    )


def _summary(point: FleetPoint) -> str:
    report = point.run.report
    return (
        f"{fleet_name(point.fleet)}: {point.gpus} GPUs, {share(point.attainment)} attainment,"
        f" TTFT p95 {latency(report.ttft_s['p95'])}, TPOT p95 {latency(report.tpot_s['p95'])},"
        f" {amount(point.tokens_per_gpu_s)} tokens/s per GPU"
    )
