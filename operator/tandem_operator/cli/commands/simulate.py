"""`tandem simulate`: one pool's own spec on one traffic, under Tandem and under other policies."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console

from tandem_operator.cli.command_errors import BadInputError
from tandem_operator.cli.commands.command import spelled_out
from tandem_operator.cli.experiments.experiment import Run, run
from tandem_operator.cli.experiments.overspent import overspent
from tandem_operator.cli.experiments.policies import PolicyName, lent, policy_for
from tandem_operator.cli.experiments.search import Search, fixed_case
from tandem_operator.cli.input.case import Case, check_fleet
from tandem_operator.cli.input.cluster_access import ClusterOptions
from tandem_operator.cli.input.live import LivePoolOption, live_of, pool_in
from tandem_operator.cli.input.options import (
    EngineOptions,
    HtmlOption,
    JsonOption,
    PoolOption,
)
from tandem_operator.cli.input.simulated_tenants import check_tenants
from tandem_operator.cli.input.traffic_options import TrafficOptions
from tandem_operator.cli.output.destination import (
    Bars,
    bars,
    check_outputs,
    screen,
    write,
    write_json,
)
from tandem_operator.cli.output.figure_table import FigureTable
from tandem_operator.cli.output.simulation_page import simulation_page
from tandem_operator.cli.output.tables import case_json, case_lines, changes_table, figures_table
from tandem_operator.cli.output.tenant_tables import TITLES as TENANT_TITLES
from tandem_operator.cli.output.tenant_tables import tenant_rows
from tandem_operator.cli.units import Fleet, fleet, share

SHOWN_CHANGES = 10
FIXED = (PolicyName.STATIC, PolicyName.CHEAPEST)


@spelled_out
def simulate(
    *,
    filename: PoolOption = None,
    live_pool: LivePoolOption = None,
    cluster: ClusterOptions,
    engines: EngineOptions,
    traffic: TrafficOptions,
    policy: Annotated[
        list[PolicyName] | None,
        typer.Option(
            help="Policy that sets replica counts; repeat it to compare several."
            " tandem if left out; cheapest is the smallest fixed fleet that keeps the SLO, searched"
            " for.",
            show_default=False,
        ),
    ] = None,
    fixed: Annotated[
        str | None,
        typer.Option(
            "--fleet",
            metavar="5P3D",
            help="The fleet of the policy static; that of --start if left out.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """Run a pool's own spec in the simulator: the live core on recorded or generated traffic.

    SLO, replica bounds, GPU budget and stabilization are those of the manifest. Nothing is
    installed or changed anywhere.
    """
    check_outputs(
        {"--json": json, "--html": html},
        inputs={"-f": filename, "--trace": traffic.trace, "--profile": engines.profile_file},
    )
    with bars() as shown:
        live = live_of(live_pool, cluster, traffic_s=traffic.live_s, steps=shown.steps)
    pool = pool_in(filename, live)
    check_tenants(traffic.tenant, [pool])
    case = engines.case(pool, traffic.requests(live), seed=traffic.seed, live=live)
    chosen = list(dict.fromkeys(policy or [PolicyName.TANDEM]))
    static = case.start if fixed is None else fleet("--fleet", fixed)
    if PolicyName.STATIC in chosen:
        check_fleet("--fleet", static, case.spec)
    elif fixed is not None:
        raise BadInputError("--fleet is that of the policy static; add --policy static")
    with bars() as shown:
        found = {name: _run(case, name, static, shown) for name in chosen}
    runs = [each for each in found.values() if each is not None]
    said = [*lent(chosen, case), *_judged(found)]
    console = screen(json, html)
    show(console, case, runs)
    for sentence in said:
        console.print(sentence, soft_wrap=True)
    outcome = {"said": said, "runs": [each.to_json() for each in runs]}
    write_json(json, {**case_json(case), **outcome})
    if html is not None:
        write(html, simulation_page(case, runs))


def _judged(found: Mapping[PolicyName, Run | None]) -> Iterator[str]:
    """Yield whether Tandem bought more than the spec asks for, as far as these runs show."""
    if PolicyName.CHEAPEST in found and found[PolicyName.CHEAPEST] is None:
        yield "No fixed fleet within the replica bounds keeps the SLO; run `tandem plan` for more."
    tandem = found.get(PolicyName.TANDEM)
    if tandem is None:
        return
    wanted, reached = tandem.case.spec.slo.attainment, tandem.report.attainment
    fixed = [each for name in FIXED if (each := found.get(name)) is not None]
    keeping = [each for each in fixed if each.report.attainment >= wanted]
    if keeping:
        cheapest = min(keeping, key=lambda each: each.report.gpu_hours)
        if sentence := overspent(tandem, cheapest):
            yield sentence
    elif reached > wanted and PolicyName.CHEAPEST not in found:
        yield (
            f"Tandem attains {share(reached)}; the SLO needs {100.0 * wanted:g}%. Add --policy"
            " cheapest to compare it with the smallest fixed fleet that keeps the SLO."
        )


def _run(case: Case, name: PolicyName, static: Fleet, shown: Bars) -> Run | None:
    if name is PolicyName.STATIC:
        case = replace(case, start=static)
    if name is PolicyName.CHEAPEST:
        with shown.steps("fleets") as on_progress:
            found = Search(case, on_progress).smallest(case.spec.slo)
        if found is None:
            return None
        case = fixed_case(case, found.point.fleet, case.spec.slo)
    policy = policy_for(name, case)
    with shown.run(policy.name, span_s=case.trace.span_s) as on_progress:
        return run(case, policy, on_progress=on_progress)


def show(console: Console, case: Case, runs: list[Run]) -> None:
    """Print tables for a person."""
    for line in case_lines(case):
        console.print(line, soft_wrap=True)
    for note in case.notes:
        console.print(f"note: {note}", style="yellow", soft_wrap=True)
    console.print(figures_table(runs, [each.report.policy for each in runs]))
    tenants = tenant_rows({each.report.policy: each for each in runs})
    if tenants:
        console.print(FigureTable(TENANT_TITLES, tenants, title="By tenant"))
    for each in runs:
        if each.changes:
            title = f"Last changes of {each.report.policy}"
            console.print(changes_table(each.changes[-SHOWN_CHANGES:], title))
