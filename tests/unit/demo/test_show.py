"""The load phases against a small server, with a pool that is only told of."""

import io
import json
import re
import time
from dataclasses import replace

from aiohttp import web
from rich.console import Console

from benchmarks.load.plan import Lengths
from benchmarks.load.record import Outcome, read_records
from e2e.demo.dashboard import Dashboard
from e2e.demo.phases import Phase
from e2e.demo.show import SightPrinter, run_phases
from e2e.demo.story import Fleet, Sight
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Slo

SLO = Slo(ttft_s=5.0, ttft_s_per_thousand_prompt_tokens=0.0, tpot_s=5.0, attainment=0.95)


def sight(prefill, decode, *, ready=1):
    fleets = {Role.PREFILL: Fleet(prefill, ready), Role.DECODE: Fleet(decode, 1)}
    return Sight(at_s=time.time(), fleets=fleets, sentence="TTFT p95 is over its bound.")


class ToldWatch:
    """Shows what it is told to show, in the shape of the watch on a cluster."""

    def __init__(self):
        self.sights = []

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None


async def serve():
    async def complete(request):
        await request.read()
        response = web.StreamResponse()
        await response.prepare(request)
        for payload in ({"choices": [{"text": "a"}]}, {"choices": [{"text": "b"}]}):
            await response.write(f"data: {json.dumps(payload)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    app = web.Application()
    app.router.add_post("/v1/completions", complete)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


def phase(name, **changes):
    mix = {"prompt_tokens": Lengths(2, 4), "output_tokens": Lengths(2, 2)}
    return Phase(name=name, rate_rps=30.0, least_s=0.5, **mix, **{"loaded": False, **changes})


async def test_phases_follow_each_other_and_the_tightened_bound_judges_its_own(tmp_path):
    phases = (phase("light"), phase("tight", tpot_target="1ms"))
    watch = ToldWatch()
    tightened = []

    def tighten(target):
        watch.sights.append(sight(1, 2))
        tightened.append(target)
        return replace(SLO, tpot_s=0.0)

    watch.sights.append(sight(1, 1))
    runner, url = await serve()
    output = io.StringIO()
    try:
        started_s = watch.sights[0].at_s
        runs = await run_phases(
            phases,
            slo=SLO,
            cold_start_s=0.0,
            url=url,
            watch=watch,
            dashboard=Dashboard(slo=SLO),
            record_path=tmp_path / "records.jsonl",
            tighten=tighten,
            console=Console(file=output),
        )
    finally:
        await runner.cleanup()

    assert tightened == ["1ms"]
    assert [run.phase.name for run in runs] == ["light", "tight"]
    assert all(record.outcome is Outcome.FINISHED for run in runs for record in run.records)
    assert runs[0].tally.good == len(runs[0].records) > 0
    assert runs[1].tally.good == 0 < len(runs[1].records)
    assert started_s <= runs[0].started_s < runs[0].ended_s <= runs[1].started_s
    written = read_records(tmp_path / "records.jsonl")
    assert len(written) == sum(len(run.records) for run in runs)


def test_a_loaded_phase_lasts_two_cold_starts_and_a_light_one_does_not():
    assert phase("heavy", loaded=True).duration_s(cold_start_s=70.0) == 140.0
    assert phase("heavy", loaded=True).duration_s(cold_start_s=0.1) == 0.5
    assert phase("light").duration_s(cold_start_s=70.0) == 0.5


def test_a_decision_is_printed_once_and_so_is_every_change_of_a_fleet():
    output = io.StringIO()
    printer = SightPrinter(Dashboard(slo=SLO), console=Console(file=output, width=200))
    resting = replace(sight(1, 1), sentence="prefill stays at 1: no requests")
    decided = "prefill 1 -> 2: TTFT p95 is over its bound; decode stays at 1: no requests"

    for seen in (resting, sight(2, 1), sight(2, 1, ready=2), sight(2, 1, ready=2)):
        printer(replace(seen, sentence=seen.sentence if seen is resting else decided))

    assert output.getvalue().splitlines() == [
        f"decision: {decided}",
        "prefill: 1 of 2 pods Ready",
        "prefill: 2 of 2 pods Ready",
    ]


def test_the_table_shows_figures_bounds_and_both_fleets(story):
    run = story.runs[1]
    now = [run.ended_s]
    dashboard = Dashboard(slo=run.slo, now=lambda: now[0])
    dashboard.begin(run.phase, slo=run.slo, ends_s=run.ended_s + 9.0)
    dashboard.sight = sight(2, 1)
    for record in run.records:
        dashboard.add(record)

    now[0] += 5.0
    text = dashboard.line()

    assert "prefill-heavy: 4 requests/s, 1100-1600 tokens in, 4-8 out; 4 s left" in text
    assert re.search(r"TTFT p50 / p95 \d+ / \d+ ms \(bound 7\d\d ms\)", text)
    assert re.search(r"TPOT p50 / p95 \d+ / \d+ ms \(bound 20 ms\)", text)
    assert "prefill ready / desired 1 / 2" in text
    assert "TTFT p95 is over its bound." in text


def test_the_table_knows_nothing_before_the_first_request_ended():
    rows = {name: value for name, value, _ in Dashboard(slo=SLO).rows()}

    assert rows["attainment"] == "unknown (wanted 95.0 %)"
    assert rows["prefill ready / desired"] == "unknown"
