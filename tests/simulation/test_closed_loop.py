"""`decide` in the loop of a small simulated pool: the right role grows, and gives back in time."""

from dataclasses import replace

import pytest

from tandem_operator.core.decision import Reason
from tandem_operator.core.role import Role
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.engines.profile import Curve
from tandem_operator.sim.policy import EPOCH_S
from tests.simulation.stories import ENGINE, Phase, play
from tests.unit.core.scene import make_spec

LIGHT = Phase("light", 120, 1.0, 100, 40)
PREFILL_HEAVY = Phase("prefill-heavy", 240, 4.0, 1500, 10)
DECODE_HEAVY = Phase("decode-heavy", 240, 3.0, 100, 250)
STEADY = Phase("steady", 180, 1.2, 100, 150)
TIGHTENED = Phase("tightened", 240, 1.2, 100, 150, tpot_s=0.018)
REST = Phase("rest", 300, 0.0, 1, 1)
SEEDS = (1, 3, 4)

SPEC = make_spec(ttft_s=1.5, tpot_s=0.025, high=5, stabilization_s=10.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_only_prefill_grows_when_prompts_are_the_load(seed: int) -> None:
    results = play(SPEC, [LIGHT, PREFILL_HEAVY], seed=seed)

    assert not results["light"].grew(Role.PREFILL)
    assert not results["light"].grew(Role.DECODE)
    assert results["prefill-heavy"].grew(Role.PREFILL)
    assert not results["prefill-heavy"].grew(Role.DECODE)
    assert "TTFT" in results["prefill-heavy"].changes[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_only_decode_grows_when_outputs_are_the_load(seed: int) -> None:
    results = play(SPEC, [LIGHT, DECODE_HEAVY], seed=seed)

    assert not results["decode-heavy"].grew(Role.PREFILL)
    assert results["decode-heavy"].grew(Role.DECODE)
    assert "TPOT" in results["decode-heavy"].changes[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tightened_tpot_grows_decode_within_ten_seconds(seed: int) -> None:
    results = play(SPEC, [STEADY, TIGHTENED], seed=seed)

    tightened = results["tightened"]
    assert not results["steady"].grew(Role.DECODE)
    grown = next(d for d in tightened.decisions if d.roles[Role.DECODE].to > 1)
    assert grown.at_s - EPOCH_S - tightened.begin_s <= 10.0 + 1e-6
    assert not tightened.grew(Role.PREFILL)


@pytest.mark.parametrize("phase", [PREFILL_HEAVY, DECODE_HEAVY], ids=lambda p: p.name)
def test_constant_load_is_served_and_then_left_alone(phase: Phase) -> None:
    load = (phase.rate_rps, phase.prompt_tokens, phase.output_tokens)

    results = play(SPEC, [Phase("start", 480, *load), Phase("settled", 600, *load)], seed=4)

    assert results["settled"].attainment >= 0.95
    assert len(results["settled"].changes) <= 1


def test_what_has_grown_is_given_back_and_rest_ends_at_the_minimum() -> None:
    results = play(SPEC, [LIGHT, PREFILL_HEAVY, REST], seed=4)

    assert results["prefill-heavy"].end[Role.PREFILL] > 1
    assert results["rest"].end == {Role.PREFILL: 1, Role.DECODE: 1}
    last = results["rest"].decisions[-1]
    assert last.roles[Role.PREFILL].reason is Reason.STEADY


def test_a_budget_moves_replicas_from_the_idle_role_to_the_busy_one() -> None:
    spec = make_spec(ttft_s=1.5, tpot_s=0.025, high=5, gpu_budget=4)
    phases = [LIGHT, PREFILL_HEAVY, Phase("decode-heavy", 360, 3.0, 100, 250)]

    results = play(spec, phases, seed=2)

    assert results["prefill-heavy"].most[Role.PREFILL] == 3
    assert results["decode-heavy"].end[Role.DECODE] >= 2
    decisions = [d for result in results.values() for d in result.decisions]
    assert all(sum(plan.to for plan in d.roles.values()) <= 4 for d in decisions)


def test_engines_twice_as_slow_get_more_prefill_for_the_same_load() -> None:
    load = Phase("load", 300, 3.0, 1000, 10)
    slower = replace(ENGINE, prefill=Curve(((0.0, 0.08), (10_000.0, 4.08))))

    end_quick = play(SPEC, [load], seed=3)["load"].end[Role.PREFILL]
    end_slow = play(SPEC, [load], seed=3, engine=slower)["load"].end[Role.PREFILL]

    assert end_slow > end_quick


def test_violations_at_decode_admission_buy_no_prefill() -> None:
    # Few streams fit a pod: decode keeps requests waiting, and TTFT breaks though steps are fast.
    narrow = replace(ENGINE, kv_capacity_tokens=4_000)

    results = play(SPEC, [LIGHT, Phase("full", 300, 2.5, 200, 250)], seed=6, engine=narrow)

    assert results["full"].grew(Role.DECODE)
    assert not results["full"].grew(Role.PREFILL)


def test_the_fleet_is_bought_before_it_is_needed_on_a_ramp() -> None:
    ramp = [Phase(f"ramp-{i}", 60, 0.5 + 0.5 * i, 1000, 10) for i in range(12)]

    results = play(SPEC, ramp, seed=7, starts=ColdStart(35.0, 0.1))

    finished = sum(r.finished for r in results.values())
    good = sum(r.good for r in results.values())
    assert good / finished >= 0.9


@pytest.mark.parametrize("seed", SEEDS)
def test_throttled_engines_within_their_bounds_are_left_alone(seed: int) -> None:
    uneven = replace(ENGINE, jitter=0.35)

    results = play(SPEC, [Phase("throttled", 600, 1.0, 400, 100)], seed=seed, engine=uneven)

    assert results["throttled"].attainment >= 0.95
    assert results["throttled"].changes == []


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_tightened_bound_bought_is_kept_once_it_is_ready(seed: int) -> None:
    # About one request a second: its rate swings by a third from minute to minute.
    spec = make_spec(ttft_s=0.6, per_thousand_s=0.1, tpot_s=0.025, high=4, stabilization_s=10.0)
    load = Phase("steady", 240, 1.2, 100, 150)

    results = play(
        spec,
        [load, replace(load, name="tightened", seconds=300, tpot_s=0.02)],
        seed=seed,
        starts=ColdStart(60.0, 0.1),
    )

    tightened = results["tightened"]
    counts = [d.roles[Role.DECODE].to for d in tightened.decisions]
    bought = next(count for count in counts if count > 1)
    assert min(counts[counts.index(bought) :]) == bought
