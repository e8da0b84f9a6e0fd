"""`tandem diff OLD NEW`: the effect of an edit of a pool on GPUs, attainment and cost."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tandem_operator.cli.command_errors import BadInputError, FailedError
from tandem_operator.cli.commands.command import spelled_out
from tandem_operator.cli.experiments.experiment import Run, run
from tandem_operator.cli.experiments.objective_costs import budget_of, sentences, stripped
from tandem_operator.cli.experiments.policies import PolicyName, policy_for
from tandem_operator.cli.input.cluster_access import ClusterOptions
from tandem_operator.cli.input.live import LivePoolOption, live_of, pool_in
from tandem_operator.cli.input.manifest import STANDARD_INPUT, read_pool
from tandem_operator.cli.input.options import ENGINES, OUTPUT, EngineOptions, JsonOption
from tandem_operator.cli.input.profiles import file_of, names_with
from tandem_operator.cli.input.simulated_tenants import check_tenants
from tandem_operator.cli.input.traffic import describe
from tandem_operator.cli.input.traffic_options import SeedsOption, TrafficOptions
from tandem_operator.cli.output.compared import (
    Comparison,
    edits,
    notes,
    restarts,
    rows,
    slos,
    to_json,
    verdict,
)
from tandem_operator.cli.output.destination import (
    bars,
    check_outputs,
    screen,
    write,
    write_json,
)
from tandem_operator.cli.output.diff_comment import markdown
from tandem_operator.cli.output.figure_table import FigureTable
from tandem_operator.cli.output.tables import changes_table
from tandem_operator.cli.output.tenant_tables import compared_rows

SHOWN_CHANGES = 5
USUAL_SEEDS = 5
TARGETS = (0.95, 0.99)

ManifestsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="[OLD.yaml] NEW.yaml",
        help="The manifest before the edit (or --pool), and the one after it.",
    ),
]


@spelled_out
def diff(
    *,
    manifests: ManifestsArgument,
    live_pool: LivePoolOption = None,
    cluster: ClusterOptions,
    engines: EngineOptions,
    new_profile: Annotated[
        str | None,
        typer.Option(
            "--new-profile",
            metavar="NAME|FILE",
            help="The speed of one replica after the edit, if the edit changes it; that of"
            " --profile if left out.",
            rich_help_panel=ENGINES,
            show_default=False,
            autocompletion=names_with,
        ),
    ] = None,
    traffic: TrafficOptions,
    seeds: SeedsOption = USUAL_SEEDS,
    markdown_to: Annotated[
        str | None,
        typer.Option(
            "--markdown",
            metavar="[FILE]",
            help="Write a comment for a pull request; without FILE to standard output.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = None,
    json: JsonOption = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit with 1 if the new spec misses its own attainment on this traffic.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
) -> None:
    """Say what an edit of a pool would do to GPUs, attainment and cost, before it is merged.

    Tandem sizes both manifests on the same traffic from the same seed, so only the edit differs.
    With --pool and one manifest, the old side is the running pool, with its own traffic and
    engines.
    """
    old, new = _old_and_new(manifests, live_pool)
    check_outputs(
        {"--markdown": markdown_to, "--json": json},
        inputs={
            "OLD": old,
            "NEW": new,
            "--trace": traffic.trace,
            "--profile": engines.profile_file,
            "--new-profile": None if new_profile is None else file_of(new_profile),
        },
    )
    if str(old) == str(new) == STANDARD_INPUT:
        raise BadInputError("only one of the two manifests can come from standard input")
    with bars() as shown:
        live = live_of(live_pool, cluster, traffic_s=traffic.live_s, steps=shown.steps)
    pools = {"old": pool_in(old, live), "new": read_pool(new)}
    check_tenants(traffic.tenant, list(pools.values()))
    traces = traffic.several(seeds, live)
    after_edit = engines if new_profile is None else replace(engines, profile=new_profile)
    served_by = {"old": engines, "new": after_edit}
    cases = {
        name: [
            served_by[name].case(pool, trace, seed=traffic.seed + number, live=live)
            for number, trace in enumerate(traces)
        ]
        for name, pool in pools.items()
    }
    runs: dict[str, list[Run]] = {name: [] for name in pools}
    with bars() as shown:
        for name in pools:
            for number, case in enumerate(cases[name], start=1):
                with shown.run(f"{name} {number}/{seeds}", span_s=case.trace.span_s) as on_progress:
                    done = run(case, policy_for(PolicyName.TANDEM, case), on_progress=on_progress)
                runs[name].append(done if number == 1 else stripped(done))
        with shown.steps("other objectives") as on_progress:
            budget = budget_of(cases["new"], runs["new"], targets=TARGETS, on_progress=on_progress)
    found = Comparison(
        names=(str(old) if old is not None or live is None else live.name, str(new)),
        pools=(pools["old"], pools["new"]),
        runs=(runs["old"][0], runs["new"][0]),
        repeats=tuple(zip(runs["old"], runs["new"], strict=True)),
        budget=budget,
    )
    _show(found, markdown_to, json)
    if markdown_to is not None:
        write(markdown_to, markdown(found))
    write_json(json, to_json(found))
    after = found.runs[1]
    if check and after.report.attainment < after.case.spec.slo.attainment:
        raise FailedError(f"{new}: {verdict(found)}")


def _old_and_new(manifests: list[Path], live_pool: str | None) -> tuple[Path | None, Path]:
    match manifests:
        case [old, new]:
            return old, new
        case [new] if live_pool is not None:
            return None, new
        case [_]:
            raise BadInputError(
                "name two manifests, such as `tandem diff old.yaml new.yaml`, or a live pool to"
                " compare one with, such as `tandem diff --pool qwen new.yaml`"
            )
    raise BadInputError(f"two manifests can be compared, not {len(manifests)}")


def _show(found: Comparison, *outputs: str | None) -> None:
    console = screen(*outputs)
    lines: list[Any] = [
        f"traffic {describe(found.runs[0].case.trace)}",
        *(f"  {edit}" for edit in edits(found)),
        *slos(found),
        restarts(found),
        *(f"note: {note}" for note in notes(found)),
    ]
    for line in lines:
        console.print(line, soft_wrap=True)
    console.print(FigureTable(found.titles, tuple(rows(found))))
    tenants = tuple(compared_rows(found))
    if tenants:
        console.print(FigureTable(found.titles, tenants, title="By tenant"))
    if found.runs[1].changes:
        last = found.runs[1].changes[-SHOWN_CHANGES:]
        console.print(changes_table(last, "Last changes under the new spec"))
    for sentence in (*sentences(found.budget), verdict(found)):
        console.print(sentence, soft_wrap=True)
