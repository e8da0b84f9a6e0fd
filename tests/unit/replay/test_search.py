"""The peers of the comparison get their best settings, and efficiency alone never wins."""

import pytest

from benchmarks.replay.clairvoyant import Clairvoyant
from benchmarks.replay.search import best, work
from benchmarks.replay.setup import Profile, Setup, fitted_start
from benchmarks.replay.simulate import Job, Result
from benchmarks.replay.traces import Request, Trace

# A prompt of 1000 tokens takes 0.1 s; a decode engine makes 50 / 0.02 = 2500 tokens/s.
PROFILE = Profile(service=(0.0, 1e-4, 0.0), step=(0.01, 2e-4, 0.0))
SETUP = Setup("bf16", 0.5, 0.02, 60.0, (2, 1), 24, 32_768)
STEADY = Trace("steady", tuple(Request(i / 20.0, 1000, 250) for i in range(20 * 600)))


def result(good: int, gpu_s: float) -> Result:
    return Result(
        requests=1000,
        completed=1000,
        good=good,
        gpu_s=gpu_s,
        duration_s=100.0,
        prefill_mean=1.0,
        decode_mean=1.0,
        ttft_s={},
        tpot_s={},
        changes=0,
        moments=(),
    )


def test_the_most_efficient_point_that_reaches_the_objective_is_chosen() -> None:
    found = best([("starved", result(700, 100.0)), ("good", result(960, 300.0))])

    assert found.chosen == "good"


def test_where_none_reaches_the_objective_the_most_good_work_is_chosen() -> None:
    found = best([("starved", result(500, 100.0)), ("better", result(900, 400.0))])

    assert found.chosen == "better"
    assert len(found.tried) == 2


def test_work_is_counted_in_replicas_kept_busy() -> None:
    prefill, decode = work(STEADY, SETUP, PROFILE)

    assert prefill.mean == pytest.approx(2.0, rel=0.02)
    assert decode.mean == pytest.approx(20 * 250 / 2500, rel=0.02)


def test_the_first_fleet_carries_the_first_minute() -> None:
    assert fitted_start(STEADY, PROFILE, 0.02) == (3, 3)


def test_the_clairvoyant_orders_one_start_up_time_ahead() -> None:
    quiet = [Request(float(i), 1000, 10) for i in range(200)]
    loud = [Request(200.0 + i / 30.0, 1000, 10) for i in range(30 * 100)]
    policy = Clairvoyant(Trace("step", tuple(quiet + loud)), PROFILE, itl_s=0.02, startup_s=60.0)

    before, ahead = (policy.on_tick({"now_ms": at * 1000.0}) for at in (100.0, 140.0))

    assert before["target_prefill"] == 1
    assert ahead["target_prefill"] == 4
    assert ahead["next_tick_ms"] == 142_000.0


def test_a_result_is_remembered_under_everything_that_it_depends_on() -> None:
    jobs = [
        Job("static", "t", "abc", SETUP, {"fleet": [3, 2]}),
        Job("static", "t", "abc", SETUP, {"fleet": [3, 3]}),
        Job("static", "t", "abd", SETUP, {"fleet": [3, 2]}),
        Job("static", "t", "abc", SETUP.with_budget(30), {"fleet": [3, 2]}),
        Job("tandem", "t", "abc", SETUP, {}),
    ]

    assert len({job.key() for job in jobs}) == len(jobs)
    assert Result.from_json(result(5, 2.0).to_json()) == result(5, 2.0)
