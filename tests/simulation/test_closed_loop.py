"""`decide` in the loop of a small simulated pool: the right role grows, and gives back in time."""

import pytest

from tandem_operator.core.decision import Reason
from tandem_operator.core.role import Role
from tests.simulation.fake_pool import Engine, FakePool, Phase
from tests.unit.core.scene import make_spec

LIGHT = Phase("light", 120, 1.0, 100, 40)
PREFILL_HEAVY = Phase("prefill-heavy", 240, 4.0, 1500, 10)
DECODE_HEAVY = Phase("decode-heavy", 240, 3.0, 100, 250)
STEADY = Phase("steady", 180, 1.5, 100, 150)
TIGHTENED = Phase("tightened", 240, 1.5, 100, 150, tpot_s=0.018)
REST = Phase("rest", 300, 0.0, 1, 1)
SEEDS = (1, 2, 3)

SPEC = make_spec(ttft_s=1.5, tpot_s=0.025, high=5, stabilization_s=60.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_only_prefill_grows_when_prompts_are_the_load(seed: int) -> None:
    results = FakePool(SPEC, Engine(), seed=seed).run([LIGHT, PREFILL_HEAVY])

    assert not results["light"].grew(Role.PREFILL)
    assert not results["light"].grew(Role.DECODE)
    assert results["prefill-heavy"].grew(Role.PREFILL)
    assert not results["prefill-heavy"].grew(Role.DECODE)
    assert "TTFT" in results["prefill-heavy"].changes[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_only_decode_grows_when_outputs_are_the_load(seed: int) -> None:
    results = FakePool(SPEC, Engine(), seed=seed).run([LIGHT, DECODE_HEAVY])

    assert not results["decode-heavy"].grew(Role.PREFILL)
    assert results["decode-heavy"].grew(Role.DECODE)
    assert "TPOT" in results["decode-heavy"].changes[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tightened_tpot_grows_decode_within_ten_seconds(seed: int) -> None:
    pool = FakePool(SPEC, Engine(), seed=seed)
    steady = pool.run([STEADY])["steady"]
    assert not steady.grew(Role.DECODE)

    at_s = pool.now_s
    tightened = pool.run([TIGHTENED])["tightened"]

    grown = next(d for d in pool.decisions if d.roles[Role.DECODE].to > 1 and d.at_s > at_s)
    assert grown.at_s - at_s <= 10.0 + 1e-6
    assert not tightened.grew(Role.PREFILL)


@pytest.mark.parametrize("phase", [PREFILL_HEAVY, DECODE_HEAVY], ids=lambda p: p.name)
def test_constant_load_is_served_and_then_left_alone(phase: Phase) -> None:
    pool = FakePool(SPEC, Engine(), seed=5)
    load = (phase.rate_rps, phase.prompt_tokens, phase.output_tokens)

    results = pool.run([Phase("start", 480, *load), Phase("settled", 600, *load)])

    assert results["settled"].attainment >= 0.95
    assert len(results["settled"].changes) <= 1


def test_what_has_grown_is_given_back_and_rest_ends_at_the_minimum() -> None:
    pool = FakePool(SPEC, Engine(), seed=4)

    results = pool.run([LIGHT, PREFILL_HEAVY, REST])

    assert results["prefill-heavy"].end[Role.PREFILL] > 1
    assert results["rest"].end == {Role.PREFILL: 1, Role.DECODE: 1}
    assert pool.decisions[-1].roles[Role.PREFILL].reason is Reason.STEADY


def test_a_budget_moves_replicas_from_the_idle_role_to_the_busy_one() -> None:
    spec = make_spec(ttft_s=1.5, tpot_s=0.025, high=5, gpu_budget=4)
    pool = FakePool(spec, Engine(), seed=2)

    results = pool.run([LIGHT, PREFILL_HEAVY, Phase("decode-heavy", 360, 3.0, 100, 250)])

    assert results["prefill-heavy"].most[Role.PREFILL] == 3
    assert results["decode-heavy"].end[Role.DECODE] >= 2
    assert all(sum(plan.to for plan in d.roles.values()) <= 4 for d in pool.decisions)


def test_engines_twice_as_slow_get_more_prefill_for_the_same_load() -> None:
    load = Phase("load", 300, 3.0, 1000, 10)
    quick = FakePool(SPEC, Engine(), seed=3)
    slow = FakePool(SPEC, Engine(prefill_fixed_s=0.08, prefill_token_s=0.0004), seed=3)

    end_quick = quick.run([load])["load"].end[Role.PREFILL]
    end_slow = slow.run([load])["load"].end[Role.PREFILL]

    assert end_slow > end_quick


def test_violations_at_decode_admission_buy_no_prefill() -> None:
    # Few streams fit a pod: decode keeps requests waiting, and TTFT breaks though steps are fast.
    pool = FakePool(SPEC, Engine(kv_capacity_tokens=4_000.0), seed=6)

    results = pool.run([LIGHT, Phase("full", 300, 2.5, 200, 250)])

    assert results["full"].grew(Role.DECODE)
    assert not results["full"].grew(Role.PREFILL)


def test_the_fleet_is_bought_before_it_is_needed_on_a_ramp() -> None:
    ramp = [Phase(f"ramp-{i}", 60, 0.5 + 0.5 * i, 1000, 10) for i in range(12)]
    pool = FakePool(SPEC, Engine(start_s=(30.0, 40.0)), seed=7)

    results = pool.run(ramp)

    finished = sum(r.finished for r in results.values())
    good = sum(r.good for r in results.values())
    assert good / finished >= 0.9


@pytest.mark.parametrize("seed", SEEDS)
def test_throttled_engines_within_their_bounds_are_left_alone(seed: int) -> None:
    pool = FakePool(SPEC, Engine(noise=0.35), seed=seed)

    results = pool.run([Phase("throttled", 600, 1.0, 400, 100)])

    assert results["throttled"].attainment >= 0.95
    assert results["throttled"].changes == []
