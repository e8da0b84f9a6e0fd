"""The steps of one decision, each alone: see, learn, want, grant and do."""

from dataclasses import replace

import pytest

from tandem_operator.core.action import act, grant, want
from tandem_operator.core.assessment import (
    TICK_S,
    Assessment,
    Observed,
    foresee,
    observe,
    size,
    study,
)
from tandem_operator.core.decision import Reason
from tandem_operator.core.guard.growth_confirmation import Past
from tandem_operator.core.guard.stabilization import WantedRun, Wants
from tandem_operator.core.learn.correction import Correction, see_ready
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import Latency, Observation, Quantiles, StartUp
from tandem_operator.core.observe.role_pods import Start, Starts
from tandem_operator.core.quota.share import Quota
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING
from tests.unit.core import scene
from tests.unit.core.scene import NOW_S, arrival, ended, make_spec, pods, report, sample

IDLE_S = TUNING.guard.idle_s

START_UP = StartUp(prefill=((32.0, 0.08), (1024.0, 0.4)), steps=((1.0, 0.01), (64.0, 0.012)))
STARTS = Starts({Role.PREFILL: (Start("a", 40.0),), Role.DECODE: (Start("b", 90.0),)})
SPEC = make_spec()
# Of one answer that still streams: nothing is known, and the pool is not idle.
BUSY = report(decode_requests=1)


def loaded(rate_rps: int = 6, *, replicas: int = 1, known_s: int = 400) -> Observation:
    """Return so many prompts of 1,000 tokens each second, on engines that measured themselves."""
    seconds = range(int(NOW_S) - known_s, int(NOW_S))
    told = report(
        started_s=NOW_S - known_s,
        arrivals=[arrival(second, rate_rps, 1000) for second in seconds],
        finished=[ended(second, rate_rps) for second in seconds],
    )
    seen = scene.observe(prefill=replicas, decode=replicas, routers=(told,))
    return replace(seen, engines=tuple(replace(each, start_up=START_UP) for each in seen.engines))


def known(
    observation: Observation, *, spec: PoolSpec = SPEC, memory: Memory | None = None
) -> Assessment:
    memory = memory or Memory()
    seen = observe(observation, memory, NOW_S)
    taught = study(spec, seen, memory)
    ahead = foresee(seen, memory)
    return Assessment(seen, taught, ahead, size(spec, seen, taught, ahead, memory))


def looked(at_s: float | None, *, starts: Starts | None = None) -> Observed:
    memory = Memory(at_s=at_s)
    if starts is not None:
        memory = replace(memory, starts=starts)
    return observe(scene.observe(prefill=2), memory, NOW_S)


@pytest.mark.parametrize(
    ("at_s", "step_s"),
    [
        (None, 0.0),
        (NOW_S - 7.0, 7.0),
        (NOW_S - 3600.0, TUNING.observe.longest_step_s),
        # The clock was set back.
        (NOW_S + 60.0, 0.0),
    ],
)
def test_a_step_is_the_time_since_the_last_look_within_reason(
    at_s: float | None, step_s: float
) -> None:
    assert looked(at_s).step_s == step_s


def test_ready_pods_are_counted_by_role() -> None:
    assert looked(None).ready == {Role.PREFILL: 2, Role.DECODE: 1}


def test_a_lead_is_a_tick_and_a_start_of_its_own_role() -> None:
    seen = looked(NOW_S - 5.0, starts=STARTS)

    assert seen.lead_s == {Role.PREFILL: TICK_S + 40.0, Role.DECODE: TICK_S + 90.0}


def test_a_forecast_looks_over_the_longer_of_both_starts() -> None:
    found = foresee(looked(NOW_S - 5.0, starts=STARTS), Memory())

    assert found.lead_s == TICK_S + 90.0


def test_samples_that_cannot_be_are_dropped_before_anything_is_learned() -> None:
    seen = scene.observe()
    old = tuple(replace(each, sampled_s=NOW_S - 3600.0) for each in seen.engines)

    assert observe(replace(seen, engines=old), Memory(), NOW_S).observation.engines == ()


def test_the_models_are_those_of_the_revision_that_decodes() -> None:
    one = pods(Role.PREFILL, 1, revision="r1")
    other = pods(Role.DECODE, 1, revision="r2")
    told = {"r1": START_UP, "r2": StartUp(steps=((1.0, 0.03), (64.0, 0.04)))}
    engines = tuple(sample(pod, start_up=told[pod.revision]) for pod in one + other)
    seen = replace(scene.observe(), pods=one + other, engines=engines)

    taught = study(SPEC, observe(seen, Memory(), NOW_S), Memory())

    assert taught.models == taught.learned.of("r2")
    assert taught.models != taught.learned.of("r1")


def test_without_a_load_nothing_is_sized_and_without_outputs_neither() -> None:
    assert known(scene.observe()).sized.situation is None
    assert known(loaded()).sized.situation is not None
    silent = replace(loaded(), routers=tuple(replace(r, finished=()) for r in loaded().routers))
    assert known(silent).sized.situation is None


def test_an_overhead_that_was_measured_is_kept_and_a_guess_is_not() -> None:
    assert known(scene.observe(), memory=Memory(overhead_s=0.2)).sized.overhead_s == 0.2
    assert known(scene.observe()).sized.overhead_s is None


def test_only_an_overhead_that_was_measured_follows_the_ttft_of_an_unloaded_pool() -> None:
    slow = Latency(NOW_S, Quantiles(p50_s=60.0), Quantiles())
    seen = replace(loaded(1, replicas=6), latency=slow)
    settled = see_ready(Correction(), dict.fromkeys(Role, 6), NOW_S - 600.0)
    known_s = known(seen, memory=Memory(overhead_s=0.2, correction=settled)).sized.overhead_s

    assert known_s is not None
    assert known_s > 0.2
    assert known(seen, memory=Memory(correction=settled)).sized.overhead_s is None


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    assert known(loaded(6)).sized.rate_rps == 6.0


def test_late_requests_that_the_models_expect_are_remembered_for_the_next_look() -> None:
    few = known(loaded(6)).sized.correction.expected_late[Role.PREFILL]
    many = known(loaded(6, replicas=6)).sized.correction.expected_late[Role.PREFILL]

    # Six prompts of .39 s each come every second.
    assert few > 0.5
    assert many < 0.1


@pytest.mark.parametrize(
    ("change", "idle"),
    [
        ({}, True),
        ({"queued_requests": 1}, False),
        ({"prefill_requests": 1}, False),
        ({"decode_requests": 1}, False),
        ({"arrivals": (arrival(NOW_S - IDLE_S, 1),)}, False),
        ({"arrivals": (arrival(NOW_S - IDLE_S - 1, 1),)}, True),
        ({"started_s": NOW_S - 30.0}, False),
    ],
)
def test_a_pool_is_idle_once_nothing_came_and_nothing_is_inside(
    change: dict[str, object], *, idle: bool
) -> None:
    spec = make_spec(stabilization_s=0.0)
    assessed = known(scene.observe(routers=(report(**change),)), spec=spec)  # type: ignore[arg-type]

    assert want(spec, assessed, Memory()).idle is idle


def test_a_pool_that_is_not_wholly_seen_is_not_idle() -> None:
    assessed = known(scene.observe(router_pods=2))

    assert not want(SPEC, assessed, Memory()).idle


def test_what_violations_demanded_is_kept_until_the_fleet_is_settled() -> None:
    memory = Memory(floors={Role.PREFILL: 5})
    assessed = known(loaded(), memory=memory)
    young = replace(assessed, taught=replace(assessed.taught, settled=frozenset({Role.DECODE})))
    old = replace(assessed, taught=replace(assessed.taught, settled=frozenset(Role)))

    assert want(SPEC, young, memory).floors == {Role.PREFILL: 5}
    assert want(SPEC, old, memory).floors == {}


def test_without_a_quota_all_that_is_wanted_is_granted() -> None:
    assessed = known(loaded())
    wanted = want(SPEC, assessed, Memory())

    granted = grant(wanted, assessed, Memory(), None)

    assert granted.plan is wanted.plan
    assert granted.share is None


def test_a_quota_that_is_too_small_grants_a_plan_within_it() -> None:
    assessed = known(loaded(12, replicas=2))
    wanted = want(SPEC, assessed, Memory())
    assert wanted.plan is not None
    assert wanted.plan.gpus(SPEC) > 4

    granted = grant(wanted, assessed, Memory(), Quota("tiny", 4, 4))

    assert granted.plan is not None
    assert granted.share is not None
    assert granted.spec.gpu_budget == granted.share.gpus == 4
    assert granted.plan.gpus(SPEC) <= 4


@pytest.mark.parametrize(("routers", "least"), [(1, 2), (2, 8)])
def test_neighbours_may_have_what_is_spare_only_of_a_pool_that_is_wholly_seen(
    routers: int, least: int
) -> None:
    assessed = known(replace(loaded(1, replicas=4), router_pods=routers))
    wanted = want(SPEC, assessed, Memory())
    assert wanted.plan is not None

    granted = grant(wanted, assessed, Memory(), Quota("tiny", 20, 20))

    assert granted.share is not None
    assert granted.share.claim is not None
    assert granted.share.claim.least == least


def test_a_quota_grants_a_share_though_nothing_is_known_to_be_wanted() -> None:
    assessed = known(scene.observe(routers=(BUSY,)))

    granted = grant(want(SPEC, assessed, Memory()), assessed, Memory(), Quota("tiny", 1, 1))

    assert granted.plan is None
    assert granted.share is not None


def test_without_a_plan_every_count_is_held_and_it_is_said_why() -> None:
    for routers, reason in (((BUSY,), Reason.STEADY), ((), Reason.STALE_METRICS)):
        assessed = known(scene.observe(prefill=3, decode=2, routers=routers))
        wanted = want(SPEC, assessed, Memory())
        assert wanted.plan is None

        allowed = act(wanted, grant(wanted, assessed, Memory(), None), assessed, Memory()).relief

        assert {r: (a.to, a.reason) for r, a in allowed.allowed.items()} == {
            Role.PREFILL: (3, reason),
            Role.DECODE: (2, reason),
        }


@pytest.mark.parametrize("routers", [1, 2])
def test_a_load_of_which_a_part_was_not_seen_leaves_no_word_on_what_may_go(routers: int) -> None:
    wants = Wants(runs=(WantedRun(NOW_S - 60.0, 2),), seen_s=NOW_S - 5.0)
    memory = Memory(past={role: Past(wants, wants, wants) for role in Role})
    assessed = known(scene.observe(routers=(BUSY,), router_pods=routers), memory=memory)
    wanted = want(SPEC, assessed, memory)

    past = act(wanted, grant(wanted, assessed, memory, None), assessed, memory).past

    assert all(each.wants == wants for each in past.values())
    assert all(each.keeps == (wants if routers == 1 else Wants()) for each in past.values())
