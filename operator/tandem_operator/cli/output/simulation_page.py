"""`tandem simulate` as a page: traffic, latency against its bounds, replicas with each decision."""

from collections.abc import Callable, Iterator, Sequence

from tandem_operator.cli.experiments.experiment import Run
from tandem_operator.cli.input.case import Case
from tandem_operator.cli.output.chart import Axis, Chart, Point
from tandem_operator.cli.output.page import render
from tandem_operator.cli.output.tables import case_lines, figures
from tandem_operator.cli.output.tenant_tables import TITLES as TENANT_TITLES
from tandem_operator.cli.output.tenant_tables import tenant_rows
from tandem_operator.cli.units import clock, latency
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.ledger import quantile

BINS = 150
BIN_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 3600)
MOST_DOTS = 1500
MOST_NUMBERED = 40
MINUTE_S = 60.0

Bins = dict[float, list[SimulatedFlight]]


def simulation_page(case: Case, runs: Sequence[Run]) -> str:
    """Return the page."""
    width_s = bin_width_s(case)
    return render(
        "simulation.html",
        title=f"Tandem: {case.name}",
        lines=case_lines(case),
        notes=case.notes,
        runs=runs,
        policies=["", *(each.report.policy for each in runs)],
        figures=[(label, *cells) for label, cells in figures(runs)],
        tenants=(TENANT_TITLES, tenant_rows({each.report.policy: each for each in runs})),
        width_s=width_s,
        traffic=rate_chart(case, width_s),
        latencies=lambda each: _latencies(each, width_s),
        replicas=replica_chart,
    )


def bin_width_s(case: Case) -> float:
    """Return the width of a bin of the plotted trace."""
    return next((w for w in BIN_STEPS_S if w * BINS >= case.trace.span_s), BIN_STEPS_S[-1])


def _latencies(each: Run, width_s: float) -> Iterator[tuple[str, Chart]]:
    bins = _bins(each.flights, width_s)
    for title, value, bound in (
        ("Time to first token", lambda f: f.ttft_s, _ttft_bound_s),
        ("Time per output token", lambda f: f.tpot_s, lambda slo, f: slo.tpot_s),
    ):
        yield title, _latency_chart(each, bins, width_s, title=title, value=value, bound=bound)


def time_axis(case: Case) -> Axis:
    """Return the axis of minutes since the start."""
    return Axis(low=0.0, high=max(case.trace.span_s, 1.0) / MINUTE_S, unit=" min")


def rate_chart(case: Case, width_s: float) -> Chart:
    """Return the plot of arrivals per second."""
    counts: dict[float, int] = {}
    for request in case.trace.requests:
        start_s = request.at_s // width_s * width_s
        counts[start_s] = counts.get(start_s, 0) + 1
    slots = range(int(case.trace.span_s // width_s) + 1)
    points: list[Point] = [
        (slot * width_s / MINUTE_S, counts.get(slot * width_s, 0) / width_s) for slot in slots
    ]
    axis = Axis(low=0.0, high=max(1.0, 1.1 * max(rate for _, rate in points)), unit="/s")
    chart = Chart("Traffic", x=time_axis(case), y=axis, height=130.0)
    return chart.steps(points, css="load")


def replica_chart(each: Run) -> Chart:
    """Return the plot of replicas ready and asked for, with each change marked."""
    moments, changes = each.report.moments, each.changes
    counts = [
        *(max(*m.asked.values(), *m.ready.values()) for m in moments),
        *each.case.start.values(),
    ]
    axis = Axis(low=0.0, high=max(counts) + 1.0, unit="")
    chart = Chart("Replicas", x=time_axis(each.case), y=axis)
    for role, nudge in ((Role.PREFILL, 0.02), (Role.DECODE, -0.02)):
        first = (0.0, each.case.start[role] + nudge)
        ready = [first, *((m.at_s / MINUTE_S, m.ready[role] + nudge) for m in moments)]
        asked = [first, *((m.at_s / MINUTE_S, m.asked[role] + nudge) for m in moments)]
        chart.steps(thinned(asked), css=f"{role} desired").steps(thinned(ready), css=f"{role}")
    for role in Role:
        marks = [
            (change.at_s / MINUTE_S, float(change.after), str(number), change.sentence)
            for number, change in enumerate(changes, start=1)
            if change.role is role
        ]
        if len(changes) <= MOST_NUMBERED:
            chart.markers(marks, css=f"{role}")
        else:
            numbered = ((x, y, f"{number}. {text}") for x, y, number, text in marks)
            chart.dots(numbered, css=f"{role}", radius=4.0)
    return chart


def thinned(points: Sequence[Point]) -> list[Point]:
    """Return the points of a staircase at which its height changes, and the last."""
    kept = [point for i, point in enumerate(points) if i == 0 or point[1] != points[i - 1][1]]
    return kept if kept and kept[-1] == points[-1] else [*kept, points[-1]]


def _bins(flights: Sequence[SimulatedFlight], width_s: float) -> Bins:
    found: Bins = {}
    for flight in sorted(flights, key=lambda f: f.request.at_s):
        found.setdefault(flight.request.at_s // width_s * width_s, []).append(flight)
    return found


def _ttft_bound_s(slo: Slo, flight: SimulatedFlight) -> float:
    return slo.ttft_bound_s(flight.request.prompt_tokens)


def _latency_chart(
    each: Run,
    bins: Bins,
    width_s: float,
    *,
    title: str,
    value: Callable[[SimulatedFlight], float | None],
    bound: Callable[[Slo, SimulatedFlight], float],
) -> Chart:
    slo = each.case.spec.slo
    lines: dict[str, list[Point]] = {"p50": [], "p95": [], "bound": []}
    late: list[tuple[float, float, str]] = []
    for start_s, flights in bins.items():
        middle = (start_s + width_s / 2.0) / MINUTE_S
        values = sorted(v for f in flights if (v := value(f)) is not None)
        bounds = sorted(bound(slo, f) for f in flights)
        for css, at in (("p50", quantile(values, 0.5)), ("p95", quantile(values, 0.95))):
            if at is not None:
                lines[css].append((middle, at))
        lines["bound"].append((middle, bounds[len(bounds) // 2]))
        late += [
            (f.request.at_s / MINUTE_S, v, _summary(f))
            for f in flights
            if (v := value(f)) is not None and v > bound(slo, f)
        ]
    shown = late[:: -(-len(late) // MOST_DOTS)] if late else []
    heights = [y for points in lines.values() for _, y in points] + [y for _, y, _ in shown]
    low, high = max(1e-4, min(heights, default=0.001)), max(heights, default=1.0)
    axis = Axis(low=low / 1.2, high=high * 1.3, unit="s", log=True)
    chart = Chart(title, x=time_axis(each.case), y=axis).dots(shown, css="late")
    return (
        chart.line(lines["p50"], css="p50")
        .line(lines["p95"], css="p95")
        .line(lines["bound"], css="bound")
    )


def _summary(flight: SimulatedFlight) -> str:
    return (
        f"at {clock(flight.request.at_s)}: {flight.request.prompt_tokens} in,"
        f" {flight.request.output_tokens} out, TTFT {latency(flight.ttft_s)},"
        f" TPOT {latency(flight.tpot_s)}"
    )
