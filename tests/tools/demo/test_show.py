"""The load phases against a small server, with a pool that exists only in reports."""

import io
import json
import re
import time
from dataclasses import replace

import pytest
from aiohttp import web
from rich.console import Console

from benchmarks.load.generator import LoadGenerator
from benchmarks.load.plan import Lengths
from benchmarks.load.record import Outcome, read_records, tally
from e2e.demo import show
from e2e.demo.calibrate import Speed, TooSlowError, measure_speed
from e2e.demo.dashboard import Dashboard
from e2e.demo.phases import CLIMB, MOST_STEPS, Phase
from e2e.demo.show import SightPrinter, run_phases
from e2e.demo.story import Fleet, Sight
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo

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


class SteppedDashboard(Dashboard):
    """Tells of each step of the load as it begins, however long its requests take."""

    def __init__(self, on_step):
        super().__init__(slo=SLO)
        self.on_step = on_step

    def begin(self, traffic, **more):
        Dashboard.begin(self, traffic, **more)
        self.on_step(traffic)


async def serve(on_request=lambda _: None):
    async def complete(request):
        on_request(await request.json())
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


SPEED = Speed(prefill_tokens_per_s=90.0, step_fixed_s=0.0, step_per_stream_s=0.1)


def phase(name, **changes):
    """Return a phase of thirty prompts of three tokens per second."""
    fields = {
        "pods": 1.0,
        "loads": Role.PREFILL,
        "prompt_tokens": Lengths(2, 4),
        "output_tokens": Lengths(2, 2),
        "least_s": 0.3,
        "lasting": False,
    }
    return Phase(name=name, **{**fields, **changes})


async def run(
    phases,
    *,
    watch,
    dashboard=None,
    on_request=lambda _: None,
    tighten=None,
    record_path=None,
    cold_start_s=0.1,
):
    """Return the phases on a pool that `watch` tells of, whose pods start in no time."""
    watch.sights.append(sight(1, 1))
    runner, url = await serve(on_request)
    dashboard = dashboard or Dashboard(slo=SLO)
    generator = LoadGenerator(
        url=url, model="tiny", record_path=record_path, on_record=dashboard.add
    )
    try:
        async with generator:
            return await run_phases(
                phases,
                slo=SLO,
                speed=SPEED,
                cold_start_s=cold_start_s,
                generator=generator,
                watch=watch,
                dashboard=dashboard,
                tighten=tighten or (lambda target_s: replace(SLO, tpot_s=target_s)),
                console=Console(file=io.StringIO()),
            )
    finally:
        await runner.cleanup()


async def test_phases_follow_each_other_and_the_tightened_bound_judges_its_own(tmp_path):
    watch, tightened = ToldWatch(), []

    def tighten(target_s):
        watch.sights.append(sight(1, 2))
        tightened.append(target_s)
        return replace(SLO, tpot_s=0.0)

    path = tmp_path / "records.jsonl"
    phases = (phase("light"), phase("tight", tightens=True))
    runs = await run(phases, watch=watch, tighten=tighten, record_path=path)

    [target_s] = tightened
    assert target_s <= 0.8 * SLO.tpot_s
    assert [run.phase.name for run in runs] == ["light", "tight"]
    assert all(record.outcome is Outcome.FINISHED for run in runs for record in run.records)
    assert runs[0].tally.good == len(runs[0].records) > 0
    assert runs[1].tally.good == 0 < len(runs[1].records)
    assert runs[0].started_s < runs[0].ended_s <= runs[1].started_s
    assert len(read_records(path)) == sum(len(run.records) for run in runs)


HEAVY = phase("heavy", grows=Role.PREFILL, lasting=True)


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(show, "FIRST_S", 0.1)
    monkeypatch.setattr(show, "STEP_S", 0.1)
    monkeypatch.setattr(show, "STEADY_S", 0.1)


async def test_a_load_rises_until_its_role_grows_and_the_next_phase_begins_with_it(short):
    watch, prompts = ToldWatch(), []

    def grow_at_a_higher_rate(traffic):
        if traffic.rate_rps > 40.0:
            watch.sights.append(sight(2, 1))

    rising, tight = await run(
        (HEAVY, replace(HEAVY, name="tight", tightens=True)),
        watch=watch,
        dashboard=SteppedDashboard(grow_at_a_higher_rate),
        on_request=lambda request: prompts.append(tuple(request["prompt"])),
    )

    assert rising.first_rps == 30.0
    assert 40.0 < rising.traffic.rate_rps < 48.0
    assert rising.rates == f"30 to {rising.traffic.rate_rps:g}/s"
    assert tight.first_rps == rising.traffic.rate_rps < tight.traffic.rate_rps
    # Three tokens each: a hundred of a thousand are not the same by chance, all of them are.
    assert len(set(prompts)) > 0.9 * len(prompts)


@pytest.mark.parametrize(
    ("usual_s", "high_s", "tightened_s"),
    [(0.020, 0.030, 0.023), (0.020, 0.022, 0.021), (0.5, 0.6, 0.8 * 0.1), (None, None, 0.8 * 0.1)],
)
def test_a_tightened_bound_is_one_that_many_requests_miss(usual_s, high_s, tightened_s):
    seen = replace(tally([]), tpot_p50_s=usual_s, tpot_p95_s=high_s)

    assert show.tightened_tpot_s(seen, slo=replace(SLO, tpot_s=0.1)) == pytest.approx(tightened_s)


async def test_a_load_does_not_rise_for_ever_and_not_at_all_once_its_role_has_grown(short):
    never, at_once = ToldWatch(), ToldWatch()

    [high] = await run((HEAVY,), watch=never)
    grow = SteppedDashboard(lambda _: at_once.sights.append(sight(2, 1)))
    [low] = await run((HEAVY,), watch=at_once, dashboard=grow)

    assert high.traffic.rate_rps == pytest.approx(30.0 * CLIMB**MOST_STEPS, rel=0.01)
    assert low.traffic.rate_rps == 30.0


async def test_a_phase_goes_on_until_its_new_pod_is_ready(short):
    watch = ToldWatch()
    seen = []

    def start_slowly(_):
        seen.append(time.time())
        since_s = seen[-1] - seen[0]
        watch.sights.append(sight(2, 1, ready=1 if since_s < 2.4 else 2))

    [late] = await run((HEAVY,), watch=watch, on_request=start_slowly, cold_start_s=1.0)

    assert late.most_ready(Role.PREFILL) == 2
    assert late.ended_s - late.started_s > 2.4 + 0.1
    assert late.traffic.duration_s == pytest.approx(late.ended_s - late.started_s, abs=0.05)


async def test_a_load_rises_again_where_growth_is_taken_back(short):
    watch, steps = ToldWatch(), []

    def grow_take_back_and_grow(traffic):
        steps.append(traffic)
        count = 2 if len(steps) == 1 or traffic.rate_rps > 40.0 else 1
        watch.sights.append(sight(count, 1, ready=count))

    [risen] = await run(
        (HEAVY,),
        watch=watch,
        dashboard=SteppedDashboard(grow_take_back_and_grow),
        cold_start_s=0.5,
    )

    assert 40.0 < risen.traffic.rate_rps < 48.0
    assert watch.sights[-1].fleets[Role.PREFILL].desired == 2


async def test_a_phase_does_not_wait_for_ever_for_a_pod_that_never_starts(short):
    watch = ToldWatch()

    [stuck] = await run(
        (HEAVY,), watch=watch, on_request=lambda _: watch.sights.append(sight(2, 1))
    )

    # It ends at all, however busy the machine is.
    assert stuck.ended_s - stuck.started_s < 60.0


async def test_the_speed_of_a_pod_is_measured_by_loading_it():
    runner, url = await serve()
    try:
        async with LoadGenerator(url=url, model="tiny") as generator:
            speed = await measure_speed(
                prefill=generator, decode=generator, prompt_tokens=Lengths(50, 60)
            )
    finally:
        await runner.cleanup()

    assert speed.prefill_tokens_per_s > 0
    assert speed.step_per_stream_s > 0


def test_a_phase_asks_for_as_many_pods_worth_of_work_as_it_says():
    slo = replace(SLO, tpot_s=2.0)
    decode = phase("heavy", loads=Role.DECODE, pods=1.5)

    assert phase("heavy").rate_rps(SPEED, slo=slo) == 30.0
    assert SPEED.decode_tokens_per_s(tpot_s=2.0) == 10.0  # 20 streams, a token every 2 s
    assert decode.rate_rps(SPEED, slo=slo) == 7.5


def test_a_machine_on_which_not_even_one_stream_keeps_tpot_is_named_as_too_slow():
    with pytest.raises(TooSlowError, match=r"100 ms on this machine .* asks for 50 ms"):
        SPEED.decode_tokens_per_s(tpot_s=0.05)


def test_a_lasting_phase_outlives_two_cold_starts_and_a_light_one_does_not():
    assert phase("heavy", lasting=True).duration_s(cold_start_s=70.0) == 147.0
    assert phase("heavy", lasting=True).duration_s(cold_start_s=0.1) == 0.3
    assert phase("light").duration_s(cold_start_s=70.0) == 0.3


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
    dashboard.begin(replace(run.traffic, duration_s=9.0), slo=run.slo)
    dashboard.sight = sight(2, 1)
    for record in run.records:
        dashboard.add(record)

    now[0] += 5.0
    text = dashboard.line()

    load = f"{run.traffic.rate_rps:g} requests/s, 1600-1900 tokens in, 12-20 out"
    assert f"prefill-heavy: {load}; 4 s left" in text
    assert re.search(r"TTFT p50 / p95 \d+ / \d+ ms \(bound 7\d\d ms\)", text)
    assert re.search(r"TPOT p50 / p95 \d+ / \d+ ms \(bound 20 ms\)", text)
    assert "prefill ready / desired 1 / 2" in text
    assert "TTFT p95 is over its bound." in text


def test_the_table_knows_nothing_before_the_first_request_ended():
    rows = {name: value for name, value, _ in Dashboard(slo=SLO).rows()}

    assert rows["attainment"] == "unknown (wanted 95.0 %)"
    assert rows["prefill ready / desired"] == "unknown"
