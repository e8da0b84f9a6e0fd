"""Cases and runs as rows of text: for the terminal, Markdown and HTML alike."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from rich.table import Table

from tandem_operator.cli.experiments.experiment import Change, Run
from tandem_operator.cli.input.case import Case
from tandem_operator.cli.input.traffic import describe
from tandem_operator.cli.output.figure_table import FigureTable
from tandem_operator.cli.units import UNKNOWN, amount, clock, fleet_name, latency, share
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.sim.report import SHARES

Cells = tuple[str, ...]


def slo_text(slo: Slo) -> str:
    """Return the SLO in a few words."""
    per = slo.ttft_s_per_thousand_prompt_tokens
    grows = f" + {latency(per)} per 1,000 prompt tokens" if per else ""
    return (
        f"TTFT {latency(slo.ttft_s)}{grows}, TPOT {latency(slo.tpot_s)},"
        f" {100.0 * slo.attainment:g}% of requests"
    )


def case_lines(case: Case) -> Iterator[str]:
    """Yield the simulated case."""
    yield f"pool {case.name}: {slo_text(case.spec.slo)}"
    yield f"traffic {describe(case.trace)}"
    bounds = ", ".join(
        f"{role} {b.min_replicas}-{b.max_replicas}"
        + (f" x {b.gpus_per_replica} GPUs" if b.gpus_per_replica > 1 else "")
        for role, b in case.spec.roles.items()
    )
    budget = "" if case.spec.gpu_budget is None else f", GPU budget {case.spec.gpu_budget}"
    yield f"engines {engines_text(case)}; {bounds}{budget}; begins at {fleet_name(case.start)}"


def engines_text(case: Case) -> str:
    """Return the assumed speed of engines and of the network between them."""
    speed = case.profile.handover_gb_per_s()
    handover = "" if speed is None else f", KV transfer {speed:.3g} GB/s"
    return f"{case.profile.name}{handover}, start-up {case.cold_start.median_s:g} s"


def figures(runs: Sequence[Run]) -> Iterator[tuple[str, Cells]]:
    """Yield one row for each figure, with one cell for each run."""

    def row(label: str, cell: Callable[[Run], str]) -> tuple[str, Cells]:
        return label, tuple(cell(run) for run in runs)

    yield row("requests", lambda run: f"{run.report.requests:,}")
    if any(run.report.limited for run in runs):
        yield row("beyond limits of tenants", lambda run: f"{run.report.limited:,}")
    yield row("good", lambda run: f"{run.report.good:,}")
    yield row("attainment", lambda run: share(run.report.attainment))
    for name in dict.fromkeys(name for run in runs for name in run.report.classes):
        yield row(f"attainment of {name}", partial(_class_share, name=name))
    yield row("late in TTFT", lambda run: f"{run.report.late_ttft:,}")
    yield row("late in TPOT", lambda run: f"{run.report.late_tpot:,}")
    if any(run.report.overflowed for run in runs):
        yield row("served by decode alone", lambda run: f"{run.report.overflowed:,}")
    if any(run.report.failed or run.report.unfinished for run in runs):
        yield row("failed, unfinished", lost)
    if any(_refused(run) for run in runs):
        yield row("of these refused at once", lambda run: f"{_refused(run):,}")
    yield row("GPU-hours", lambda run: amount(run.report.gpu_hours))
    yield row("GPUs on average", lambda run: amount(run.mean_gpus))
    yield row("GPUs at most", lambda run: f"{run.most_gpus}")
    yield row("good / GPU-second", lambda run: amount(run.report.good_per_gpu_s))
    yield row("GPU-hours / M tokens out", lambda run: amount(run.hours_per_million_tokens))
    if any(run.case.gpu_hour_price is not None for run in runs):
        yield row("cost / M tokens out", lambda run: amount(run.cost_per_million_tokens))
    for at in SHARES:
        yield f"TTFT {at}", tuple(latency(run.report.ttft_s[at]) for run in runs)
    for at in SHARES:
        yield f"TPOT {at}", tuple(latency(run.report.tpot_s[at]) for run in runs)
    for role in Role:
        yield f"changes of {role}", tuple(f"{run.report.changes[role]}" for run in runs)


def _class_share(run: Run, *, name: str) -> str:
    """Return the share of good requests of a class, and its rate of good tokens."""
    found = run.report.classes.get(name)
    if found is None or not found.requests:
        return UNKNOWN
    rate = found.good_output_tokens / max(1e-9, run.report.end_s)
    return f"{share(found.attainment)}, {amount(rate)} good tokens/s"


def _refused(run: Run) -> int:
    return sum(each.refused for each in run.report.classes.values())


def lost(run: Run) -> str:
    """Return the number of failed requests, and of requests still inside at the end."""
    return f"{run.report.failed:,}, {run.report.unfinished:,}"


def figures_table(runs: Sequence[Run], names: Sequence[str]) -> FigureTable:
    """Return all figures, with a column for each run."""
    return FigureTable(("", *names), [(label, *cells) for label, cells in figures(runs)])


def changes_table(changes: Sequence[Change], title: str) -> Table:
    """Return the changes with their reasons."""
    table = Table(
        title=title,
        title_justify="left",
        min_width=len(title),
        show_edge=False,
        pad_edge=False,
    )
    table.add_column("at", justify="right", no_wrap=True)
    table.add_column("what and why", overflow="fold")
    for change in changes:
        table.add_row(clock(change.at_s), change.sentence)
    return table


def slo_json(slo: Slo) -> dict[str, float]:
    """Return the SLO by the names of the router's settings."""
    return {
        "ttft_s": slo.ttft_s,
        "ttft_s_per_thousand_prompt_tokens": slo.ttft_s_per_thousand_prompt_tokens,
        "tpot_s": slo.tpot_s,
        "attainment": slo.attainment,
    }


def case_json(case: Case) -> dict[str, Any]:
    """Return the simulated case, for programs."""
    return {
        "pool": case.name,
        "slo": slo_json(case.spec.slo),
        "traffic": {
            "name": case.trace.name,
            "requests": len(case.trace.requests),
            "span_s": case.trace.span_s,
            "rate_rps": case.trace.rate_rps,
        },
        "profile": case.profile.name,
        "kv_gb_per_s": case.profile.handover_gb_per_s(),
        "cold_start_s": case.cold_start.median_s,
        "gpu_budget": case.spec.gpu_budget,
        "gpu_hour_price": case.gpu_hour_price,
        "seed": case.seed,
        "notes": list(case.notes),
        "requests_too_long": 0 if case.oversize is None else case.oversize.count,
    }
