"""`tandem plan`: the fleets that keep an SLO for a traffic, their cost, and other SLOs' cost."""

from dataclasses import replace

from rich.console import Console

from tandem_operator.cli.commands.command import spelled_out
from tandem_operator.cli.experiments.experiment import run
from tandem_operator.cli.experiments.objective_costs import TITLES as BUDGET_TITLES
from tandem_operator.cli.experiments.objective_costs import budget_of, sentences, stripped
from tandem_operator.cli.experiments.objective_costs import rows as budget_rows
from tandem_operator.cli.experiments.policies import PolicyName, policy_for
from tandem_operator.cli.experiments.search import FleetPoint, Found, Search, Size
from tandem_operator.cli.input.cluster_access import ClusterOptions
from tandem_operator.cli.input.live import LivePoolOption, live_of, pool_in
from tandem_operator.cli.input.options import (
    EngineOptions,
    HtmlOption,
    JsonOption,
    PoolOption,
)
from tandem_operator.cli.input.simulated_tenants import check_tenants
from tandem_operator.cli.input.traffic_options import SeedsOption, TrafficOptions
from tandem_operator.cli.output.destination import bars, check_outputs, screen, write, write_json
from tandem_operator.cli.output.figure_table import FigureTable
from tandem_operator.cli.output.plan_page import plan_page
from tandem_operator.cli.output.plan_tables import (
    CHANGE_TITLES,
    FLEET_TITLES,
    CapacityPlan,
    SloChange,
    answer,
    asked_for,
    change_rows,
    fleet_cells,
    near,
    runs_by_name,
    tandem_cells,
    to_json,
)
from tandem_operator.cli.output.tables import case_lines
from tandem_operator.cli.output.tenant_tables import TITLES as TENANT_TITLES
from tandem_operator.cli.output.tenant_tables import tenant_rows
from tandem_operator.cli.units import latency
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo

STEPS = (0.5, 0.75, 1.5, 2.0)
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (1, 1), (1, -1), (-1, 1))
SCALES = (0.6, 0.8, 1.4, 2.0)
USUAL_SEEDS = 5
TARGETS = (0.95, 0.99, 0.999)


@spelled_out
def plan(
    *,
    filename: PoolOption = None,
    live_pool: LivePoolOption = None,
    cluster: ClusterOptions,
    engines: EngineOptions,
    traffic: TrafficOptions,
    seeds: SeedsOption = USUAL_SEEDS,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """Find the fleets that keep a pool's SLO for a traffic, and what they cost per million tokens.

    Simulates fleets of fixed size within the pool's replica bounds. It finds the smallest that
    keeps the SLO, larger ones for the frontier of latency and throughput, and the smallest for
    tighter and looser SLOs. It also shows what Tandem would hold on average.
    """
    check_outputs(
        {"--json": json, "--html": html},
        inputs={"-f": filename, "--trace": traffic.trace, "--profile": engines.profile_file},
    )
    with bars() as shown:
        live = live_of(live_pool, cluster, traffic_s=traffic.live_s, steps=shown.steps)
    pool = pool_in(filename, live)
    check_tenants(traffic.tenant, [pool])
    cases = [
        engines.case(pool, trace, seed=traffic.seed + number, live=live)
        for number, trace in enumerate(traffic.several(seeds, live))
    ]
    case = cases[0]
    with bars() as shown:
        with shown.steps("fleets") as on_progress:
            search = Search(case, on_progress)
            cheapest, changes = _sizes(search)
            fixed = _by_objective(search)
            points = _points(search, cheapest)
        runs = []
        for number, each in enumerate(cases, start=1):
            with shown.run(f"tandem {number}/{seeds}", span_s=each.trace.span_s) as on_progress:
                done = run(each, policy_for(PolicyName.TANDEM, each), on_progress=on_progress)
            runs.append(done if number == 1 else stripped(done))
        with shown.steps("other objectives") as on_progress:
            budget = budget_of(cases, runs, targets=TARGETS, on_progress=on_progress, fixed=fixed)
    found = CapacityPlan(
        case=case,
        cheapest=None if cheapest is None else cheapest.point,
        largest=search.at(search.most, case.spec.slo),
        points=tuple(points),
        changes=tuple(changes),
        tandem=runs[0],
        budget=budget,
    )
    show(screen(json, html), found)
    write_json(json, to_json(found))
    if html is not None:
        write(html, plan_page(found))


def _by_objective(search: Search) -> dict[float, FleetPoint | None]:
    """Return the smallest fleet for each objective, the loosest first; runs are shared."""
    slo = search.case.spec.slo
    found: dict[float, FleetPoint | None] = {}
    looser: Found | None = None
    for target in sorted({slo.attainment, *TARGETS}):
        smallest = search.smallest(replace(slo, attainment=target), tighter_than=looser)
        looser = smallest or looser
        found[target] = None if smallest is None else smallest.point
    return found


def stepped(slo: Slo, which: str, factor: float) -> Slo:
    """Return the SLO with one bound times a factor."""
    if which == "TPOT":
        return replace(slo, tpot_s=slo.tpot_s * factor)
    return replace(
        slo,
        ttft_s=slo.ttft_s * factor,
        ttft_s_per_thousand_prompt_tokens=slo.ttft_s_per_thousand_prompt_tokens * factor,
    )


def _sizes(search: Search) -> tuple[Found | None, list[SloChange]]:
    """Return the smallest fleet for the SLO and for each step from it, the loosest first."""
    slo = search.case.spec.slo
    own: Found | None = None
    changes = {}
    for which in ("TTFT", "TPOT"):
        looser: Found | None = None
        for factor in sorted((*STEPS, 1.0), reverse=True):
            changed = stepped(slo, which, factor)
            found = search.smallest(changed, tighter_than=looser)
            looser = found or looser
            if factor == 1.0:
                own = found
            else:
                bound_s = changed.ttft_s if which == "TTFT" else changed.tpot_s
                name = f"{which} {latency(bound_s)} ({factor:g} x)"
                changes[which, factor] = SloChange(
                    name, changed, None if found is None else found.point
                )
    return own, [changes[key] for key in sorted(changes, key=lambda k: (k[0] == "TPOT", k[1]))]


def _points(search: Search, cheapest: Found | None) -> list[FleetPoint]:
    """Return the fleets run so far, and the useful neighbours of the cheapest one."""
    slo, low, most = search.case.spec.slo, search.low, search.most
    p, d = search.most
    if cheapest is not None:
        p, d = (cheapest.point.fleet[role] for role in Role)
    wanted = [(p + dp, d + dd) for dp, dd in NEIGHBOURS]
    wanted += [(round(p * scale), round(d * scale)) for scale in SCALES]
    for size in wanted:
        search.at(_inside(size, low, most), slo)
    return search.points(slo)


def _inside(size: Size, low: Size, most: Size) -> Size:
    return min(max(size[0], low[0]), most[0]), min(max(size[1], low[1]), most[1])


def show(console: Console, found: CapacityPlan) -> None:
    """Print tables for a person."""
    for line in case_lines(found.case):
        console.print(line, soft_wrap=True)
    for note in found.case.notes:
        console.print(f"note: {note}", style="yellow", soft_wrap=True)
    points = near(found)
    styles = (
        "bold green" if point == found.cheapest else None if point.meets else "dim"
        for point in points
    )
    rows = (*map(fleet_cells, points), tandem_cells(found.tandem))
    console.print(FigureTable(FLEET_TITLES, rows, title="Fleets", styles=(*styles, None)))
    tenants = tenant_rows(runs_by_name(found))
    if tenants:
        console.print(FigureTable(TENANT_TITLES, tenants, title="By tenant"))
    changes = tuple(change_rows(found))
    console.print(FigureTable(CHANGE_TITLES, changes, title="What another SLO would cost"))
    console.print(
        FigureTable(BUDGET_TITLES, tuple(budget_rows(found.budget)), title="What it costs to keep")
    )
    for sentence in (*sentences(found.budget), *asked_for(found), answer(found)):
        console.print(sentence, soft_wrap=True)
