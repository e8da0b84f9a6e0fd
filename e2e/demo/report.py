"""The report: one HTML page that needs no other file."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.load.record import Record, quantile
from e2e.demo.story import Change, PhaseRun, Story
from e2e.demo.verdict import Finding
from tandem_operator.cli.output.chart import Axis, Band, Chart, Point
from tandem_operator.cli.output.page import render as render_template
from tandem_operator.core.role import Role
from tandem_routing.verdict import Cause

BIN_S = 5.0
TITLES = (
    *("phase", "requests", "good", "failed", "shed", "attainment"),
    *("TTFT p50", "p95", "TPOT p50", "p95", "bound", "prefill", "decode"),
)
# In the order of a request's way; the last two are no part of TTFT.
CAUSES = {cause: cause.replace("_", " ") for cause in Cause}


def render(story: Story, *, findings: Sequence[Finding]) -> str:
    """Return the page."""
    bands = [Band(run.started_s, run.ended_s) for run in story.runs]
    changes = [change for run in story.runs for change in run.changes]
    return render_template(
        "report.html",
        folder=Path(__file__).parent,
        title="Tandem demo",
        story=story,
        findings=findings,
        tiles=_tiles(story, findings=findings),
        bin_s=BIN_S,
        load=_load_chart(story, bands=bands),
        latencies=[
            (title, _latency_chart(story, bands=bands, field=field, title=title))
            for title, field in (
                ("Time to first token", "ttft_s"),
                ("Time per output token", "tpot_s"),
            )
        ],
        replicas=_replica_chart(story, bands=bands, changes=changes),
        changes=changes,
        start_s=story.runs[0].started_s,
        phase_table=(TITLES, map(_cells, story.runs)),
        cause_table=(("phase", *CAUSES.values(), "all"), map(_causes, story.runs)),
    )


def _tiles(story: Story, *, findings: Sequence[Finding]) -> list[tuple[str, str]]:
    tallies = [run.tally for run in story.runs]
    requests, good = sum(one.requests for one in tallies), sum(one.good for one in tallies)
    failed = sum(one.failed for one in tallies)
    seen = sum(finding.shown for finding in findings)
    return [
        (f"{seen} of {len(findings)}", "things to be seen were seen"),
        (f"{requests}", "requests sent"),
        (f"{100 * good / requests:.1f} %" if requests else "unknown", "inside the SLO"),
        (f"{failed}", "failed"),
        (f"{story.seconds.first_answer:.0f} s", "from start to first answer"),
        (f"{story.cold_start_s:.0f} s", "cold start of an engine pod"),
        (f"{story.seconds.total / 60:.1f} min", "in all"),
    ]


def _bins(records: Sequence[Record]) -> dict[float, list[Record]]:
    bins: dict[float, list[Record]] = {}
    for record in records:
        bins.setdefault(record.sent_s // BIN_S * BIN_S, []).append(record)
    return dict(sorted(bins.items()))


def _all_records(story: Story) -> list[Record]:
    return [record for run in story.runs for record in run.records]


def _clock(bands: Sequence[Band]) -> Axis:
    """Return the seconds since the first phase began."""
    start_s = bands[0].start
    return Axis(low=start_s, high=bands[-1].end, unit=" s", zero=start_s)


def _load_chart(story: Story, *, bands: Sequence[Band]) -> Chart:
    points: list[Point] = [
        (at_s, len(some) / BIN_S) for at_s, some in _bins(_all_records(story)).items()
    ]
    highest = max((rate for _, rate in points), default=1.0)
    axis = Axis(low=0.0, high=max(1.0, 1.1 * highest), unit="/s")
    return Chart("Load", x=_clock(bands), y=axis, bands=bands, height=130.0).steps(
        points, css="load"
    )


def _latency_chart(story: Story, *, bands: Sequence[Band], field: str, title: str) -> Chart:
    measured = [
        (record, getattr(record, field), _bound_s(run, record, field=field))
        for run in story.runs
        for record in run.records
        if getattr(record, field) is not None
    ]
    values = [value for _, value, _ in measured] + [bound for _, _, bound in measured]
    # Tokens that came all at once took no time each, for which a log has no place.
    low = min((value for value in values if value > 0.0), default=0.001)
    high = max(values, default=1.0)
    axis = Axis(low=low / 1.2, high=high * 1.2, unit="s", log=True)
    chart = Chart(title, x=_clock(bands), y=axis, bands=bands)
    for css, kept in (("kept", True), ("late", False)):
        chart.dots(
            (
                (record.sent_s, value, _describe(record))
                for record, value, bound in measured
                if (value <= bound) is kept
            ),
            css=css,
        )
    p95: list[Point] = []
    for at_s, some in _bins([record for record, _, _ in measured]).items():
        tail = quantile((getattr(record, field) for record in some), 0.95)
        if tail is not None:
            p95.append((at_s + BIN_S / 2, tail))
    bounds = sorted((record.sent_s, bound) for record, _, bound in measured)
    return chart.line(p95, css="p95").steps(_smooth_bounds(bounds), css="bound")


def _bound_s(run: PhaseRun, record: Record, *, field: str) -> float:
    return run.slo.tpot_s if field == "tpot_s" else run.slo.ttft_bound_s(record.prompt_tokens)


def _smooth_bounds(bounds: Sequence[Point]) -> list[Point]:
    """Return the median bound of each moment, as bounds can grow with the prompt."""
    bins: dict[float, list[float]] = {}
    for at_s, bound in bounds:
        bins.setdefault(at_s // BIN_S * BIN_S, []).append(bound)
    return [(at_s, sorted(some)[len(some) // 2]) for at_s, some in bins.items()]


def _describe(record: Record) -> str:
    ttft = "none" if record.ttft_s is None else f"{1000 * record.ttft_s:.0f} ms"
    tpot = "none" if record.tpot_s is None else f"{1000 * record.tpot_s:.1f} ms"
    return (
        f"{record.request_id}: {record.prompt_tokens} in, {record.output_tokens} out, "
        f"TTFT {ttft}, TPOT {tpot}, {record.outcome}"
    )


def _replica_chart(story: Story, *, bands: Sequence[Band], changes: Sequence[Change]) -> Chart:
    sights = [sight for run in story.runs for sight in run.sights]
    most = max(max(fleet.desired, fleet.ready) for s in sights for fleet in s.fleets.values())
    axis = Axis(low=0.0, high=most + 1.0, unit="")
    chart = Chart("Replicas", x=_clock(bands), y=axis, bands=bands)
    for role, nudge in ((Role.PREFILL, 0.02), (Role.DECODE, -0.02)):
        ready = [(sight.at_s, sight.fleets[role].ready + nudge) for sight in sights]
        asked = [(sight.at_s, sight.fleets[role].desired + nudge) for sight in sights]
        chart.steps(asked, css=f"{role} desired").steps(ready, css=f"{role}")
    for role in Role:
        chart.markers(
            (
                (change.at_s, change.after, str(number), change.sentence)
                for number, change in enumerate(changes, start=1)
                if change.role is role
            ),
            css=f"{role}",
        )
    return chart


def _cells(run: PhaseRun) -> list[str]:
    figures = run.tally
    extents = [run.extent(role) for role in Role]
    return [
        run.phase.name,
        *map(str, (figures.requests, figures.good, figures.failed, figures.shed)),
        "unknown" if figures.attainment is None else f"{100 * figures.attainment:.1f} %",
        *map(_ms, (figures.ttft_p50_s, figures.ttft_p95_s)),
        *map(_ms, (figures.tpot_p50_s, figures.tpot_p95_s, run.slo.tpot_s)),
        *(f"{extent.start} → {extent.max} → {extent.end}" for extent in extents),
    ]


def _causes(run: PhaseRun) -> list[str]:
    late = run.late_by_cause
    return [run.phase.name, *(str(late.get(cause, 0)) for cause in CAUSES), f"{sum(late.values())}"]


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    if seconds >= 1.0:
        return f"{seconds:.1f} s"
    return f"{1000 * seconds:.1f} ms" if seconds < 0.1 else f"{1000 * seconds:.0f} ms"
