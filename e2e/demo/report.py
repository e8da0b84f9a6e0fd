"""The report: one HTML page that needs nothing but itself."""

from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.load.record import Record, quantile
from e2e.demo.story import Change, PhaseRun, Story
from e2e.demo.verdict import Finding
from tandem_operator.cli.output.chart import Axis, Band, Chart, Point
from tandem_operator.cli.output.page import page
from tandem_operator.core.role import Role

BIN_S = 5.0
ROLE_CSS = {Role.PREFILL: "prefill", Role.DECODE: "decode"}


def render(story: Story, *, findings: Sequence[Finding]) -> str:
    """The page."""
    start_s = story.runs[0].started_s
    bands = [Band(run.started_s, run.ended_s) for run in story.runs]
    changes = [change for run in story.runs for change in run.changes]
    names = _phase_names(story)
    sections = [
        *_head(story, findings=findings),
        "<h2>Load</h2><p class='soft'>Requests sent per second. They are sent at their own pace, "
        "whether answers come or not.</p>",
        names,
        _load_chart(story, bands=bands).svg(),
        "<h2>Time to first token</h2>",
        _latency_key(),
        names,
        _latency_chart(story, bands=bands, field="ttft_s", title="Time to first token").svg(),
        "<h2>Time per output token</h2>",
        _latency_key(),
        names,
        _latency_chart(story, bands=bands, field="tpot_s", title="Time per output token").svg(),
        "<h2>Replicas</h2><p class='soft key'><i style='color:var(--prefill)'></i>prefill Ready"
        "<i style='color:var(--decode)'></i>decode Ready"
        "<i class='dash' style='color:var(--soft)'></i>asked for; numbers are the decisions below"
        "</p>",
        names,
        _replica_chart(story, bands=bands, changes=changes).svg(),
        _decisions(changes, start_s=start_s),
        "<h2>Phases</h2>",
        _table(story),
        "<h2>What was to be seen</h2>",
        _findings(findings),
    ]
    return page("Tandem demo", sections)


def _head(story: Story, *, findings: Sequence[Finding]) -> Iterator[str]:
    tallies = [run.tally for run in story.runs]
    requests, good = sum(one.requests for one in tallies), sum(one.good for one in tallies)
    failed = sum(one.failed for one in tallies)
    seen = sum(finding.shown for finding in findings)
    slo = story.slo
    yield (
        "<h1>Tandem demo</h1><p class='soft'>One pool, real vLLM pods, two fleets that are sized "
        f"apart. SLO: TTFT {1000 * slo.ttft_s:g} ms"
        f"{_per_thousand(slo.ttft_s_per_thousand_prompt_tokens)}, TPOT {1000 * slo.tpot_s:g} ms, "
        f"{100 * slo.attainment:g} % of requests.</p><div class='tiles'>"
    )
    tiles = [
        (f"{seen} of {len(findings)}", "things to be seen were seen"),
        (f"{requests}", "requests sent"),
        (f"{100 * good / requests:.1f} %" if requests else "unknown", "inside the SLO"),
        (f"{failed}", "failed"),
        (f"{story.seconds.first_answer:.0f} s", "from start to first answer"),
        (f"{story.cold_start_s:.0f} s", "cold start of an engine pod"),
        (f"{story.seconds.total / 60:.1f} min", "in all"),
    ]
    yield "".join(
        f"<div class='tile'><b>{value}</b><span>{label}</span></div>" for value, label in tiles
    )
    yield "</div>"


def _per_thousand(seconds: float) -> str:
    return f" + {1000 * seconds:g} ms per 1,000 prompt tokens" if seconds else ""


def _phase_names(story: Story) -> str:
    return (
        "<div class='names'>"
        + "".join(
            f"<div style='flex:{run.ended_s - run.started_s:.1f}'>{run.phase.name}<small>"
            f"{run.rates}, {run.phase.prompt_tokens} in, "
            f"{run.phase.output_tokens} out</small></div>"
            for run in story.runs
        )
        + "</div>"
    )


def _latency_key() -> str:
    return (
        "<p class='soft key'><i class='dot' style='background:var(--good)'></i>request inside "
        "<i class='dot' style='background:var(--bad)'></i>request outside its bound"
        f"<i style='color:var(--ink)'></i>p95 of {BIN_S:g} s"
        "<i class='dash' style='color:var(--bound)'></i>bound</p>"
    )


def _bins(records: Sequence[Record]) -> dict[float, list[Record]]:
    bins: dict[float, list[Record]] = {}
    for record in records:
        bins.setdefault(record.sent_s // BIN_S * BIN_S, []).append(record)
    return dict(sorted(bins.items()))


def _all_records(story: Story) -> list[Record]:
    return [record for run in story.runs for record in run.records]


def _clock(bands: Sequence[Band]) -> Axis:
    """Seconds since the first phase began."""
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
    """Bounds that grow with the prompt differ from request to request: show their median."""
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
        css = ROLE_CSS[role]
        ready = [(sight.at_s, sight.fleets[role].ready + nudge) for sight in sights]
        asked = [(sight.at_s, sight.fleets[role].desired + nudge) for sight in sights]
        chart.steps(asked, css=f"{css} desired").steps(ready, css=css)
    for role in Role:
        chart.markers(
            (
                (change.at_s, change.after, str(number), change.sentence)
                for number, change in enumerate(changes, start=1)
                if change.role is role
            ),
            css=ROLE_CSS[role],
        )
    return chart


def _decisions(changes: Sequence[Change], *, start_s: float) -> str:
    if not changes:
        return "<p class='soft'>No replica count was changed.</p>"
    return (
        "<ol class='decisions'>"
        + "".join(
            f"<li><b class='{ROLE_CSS[change.role]}'>{number}</b>"
            f"<time>{change.at_s - start_s:.0f} s</time>"
            f"<span>{escape(change.sentence)}</span></li>"
            for number, change in enumerate(changes, start=1)
        )
        + "</ol>"
    )


def _table(story: Story) -> str:
    titles = (
        "phase",
        "requests",
        "good",
        "failed",
        "shed",
        "attainment",
        "TTFT p50",
        "p95",
        "TPOT p50",
        "p95",
        "bound",
        "prefill",
        "decode",
    )
    rows = []
    for run in story.runs:
        figures = run.tally
        extents = [run.extent(role) for role in Role]
        cells = [
            run.phase.name,
            *map(str, (figures.requests, figures.good, figures.failed, figures.shed)),
            "unknown" if figures.attainment is None else f"{100 * figures.attainment:.1f} %",
            *map(_ms, (figures.ttft_p50_s, figures.ttft_p95_s)),
            *map(_ms, (figures.tpot_p50_s, figures.tpot_p95_s, run.slo.tpot_s)),
            *(f"{extent.start} → {extent.max} → {extent.end}" for extent in extents),
        ]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{title}</th>" for title in titles)
    return f"<table><tr>{head}</tr>{''.join(rows)}</table><p class='soft'>start → most → end</p>"


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    return f"{1000 * seconds:.1f} ms" if seconds < 0.1 else f"{1000 * seconds:.0f} ms"


def _findings(findings: Sequence[Finding]) -> str:
    items = (
        f"<li><span class='{'ok' if finding.shown else 'no'}'>"
        f"{'✓' if finding.shown else '✗'}</span> {escape(finding.sentence)}</li>"
        for finding in findings
    )
    return f"<ul class='findings'>{''.join(items)}</ul>"
