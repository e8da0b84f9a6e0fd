"""A pool's share of a quota, what more would buy it, and the words for it."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tandem_operator.core.decide import decide
from tandem_operator.core.decision import Decision, Reason
from tandem_operator.core.forecast.distribution import Forecast, Level
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import Observation, PodPhase
from tandem_operator.core.quota.allocate import Claim, allocate
from tandem_operator.core.quota.demand_curve import (
    NEGLIGIBLE_RPS,
    Curve,
    CurvePoint,
    demand_curve,
)
from tandem_operator.core.quota.share import Crest, Quota, crest_of
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.replica_counts import RoleDemand, count_pairs
from tandem_operator.core.spec import Mode, PoolSpec, RoleSpec
from tandem_operator.core.tuning.tuning import TUNING
from tandem_operator.workloads.stored_memory import memory_from_json, memory_to_json
from tests.unit.core.scene import NOW_S, make_spec, observe, pods
from tests.unit.core.test_sizing import decode, poisson, replay, sampled

TARGET = {Role.PREFILL: 4, Role.DECODE: 3}


def demands() -> dict[Role, RoleDemand]:
    played, decoding = replay(sampled(poisson(8.0)), service_s=0.3), decode()
    return {
        Role.PREFILL: RoleDemand(played.late_share, played.work.mean_service_s),
        Role.DECODE: RoleDemand(
            decoding.late_share, decoding.outputs.mean_tokens / decoding.tokens_per_s
        ),
    }


def curve_of(
    spec: PoolSpec,
    *,
    target: dict[Role, int] = TARGET,
    fixed: dict[Role, int] | None = None,
    good_share: float = 1.0,
) -> Curve:
    level = Level(30.0, 8.0, (7.0, 8.0, 9.0))
    return demand_curve(
        spec,
        Forecast(30.0, (level,)),
        demands(),
        target=target,
        fixed=fixed or {},
        good_share=good_share,
    )


def line(*points: tuple[int, float]) -> Curve:
    """Return a curve of GPUs and good requests per second."""
    return tuple(CurvePoint(gpus, dict.fromkeys(Role, 1), goodput) for gpus, goodput in points)


def tick(
    quota: Quota,
    observation: Observation,
    *,
    spec: PoolSpec | None = None,
    memory: Memory | None = None,
) -> Decision:
    return decide(spec or make_spec(), observation, memory or Memory(), NOW_S, quota=quota)[0]


def quota(gpus: int, *claims: Claim, hard_gpus: int | None = None) -> Quota:
    return Quota("pool", gpus if hard_gpus is None else hard_gpus, gpus, claims)


def neighbour(held: int, **more: object) -> Claim:
    made = Claim(pool="chat", priority=10, least=2, asked=held, held=held, granted=held)
    return replace(made, **more)  # type: ignore[arg-type]


NEW = observe(prefill=0, decode=0, replicas={})


def test_a_quota_that_was_lowered_takes_nothing_from_a_pool_of_which_nothing_fresh_is_known() -> (
    None
):
    seen = observe(prefill=3, decode=3, routers=())

    decision = tick(quota(2), seen)

    assert {role: plan.to for role, plan in decision.roles.items()} == dict.fromkeys(Role, 3)


def test_a_curve_leads_from_the_minimum_to_the_target_and_always_up() -> None:
    curve = curve_of(make_spec(high=8))

    assert curve[0].counts == {Role.PREFILL: 1, Role.DECODE: 1}
    assert curve[-1].counts == TARGET
    assert all(a.gpus < b.gpus for a, b in pairwise(curve))
    assert all(a.goodput_rps <= b.goodput_rps for a, b in pairwise(curve))
    assert curve[-1].goodput_rps > 0.85 * 8.0


def test_a_point_of_the_curve_is_the_best_pair_of_its_gpus() -> None:
    spec = make_spec(high=8)
    rates_rps = (7.0, 8.0, 9.0)
    pairs = list(count_pairs(spec, rates_rps, demands(), target=TARGET, fixed={}))

    for point in curve_of(spec)[:-1]:
        best = max((p for p in pairs if p.gpus == point.gpus), key=lambda p: p.goodput_rps)
        assert point.goodput_rps == pytest.approx(best.goodput_rps, abs=2 * NEGLIGIBLE_RPS)


def test_a_curve_counts_the_gpus_of_tensor_parallel_replicas() -> None:
    spec = make_spec(high=8)
    roles = {Role.PREFILL: RoleSpec(1, 8, 1, True), Role.DECODE: RoleSpec(1, 8, 4, True)}

    curve = curve_of(replace(spec, roles=roles))

    assert all(p.gpus == p.counts[Role.PREFILL] + 4 * p.counts[Role.DECODE] for p in curve)


def test_a_role_of_another_owner_stands_still_along_the_curve() -> None:
    curve = curve_of(make_spec(high=8, managed={Role.DECODE: False}), fixed={Role.DECODE: 2})

    assert {point.counts[Role.DECODE] for point in curve} == {2}


def test_requests_that_can_never_be_good_are_no_reason_to_get_gpus() -> None:
    spec = make_spec(high=8)
    good, hopeless = curve_of(spec), curve_of(spec, good_share=0.0)
    claims = [
        Claim("good", priority=0, least=2, curve=good),
        Claim("a-hopeless", priority=0, least=2, curve=hopeless),
    ]

    shares = allocate(claims, gpus=9)

    assert shares == {"good": 7, "a-hopeless": 2}


def test_a_step_of_four_gpus_competes_with_what_it_gives_per_gpu() -> None:
    wide = Claim("wide", priority=0, least=5, curve=line((5, 4.0), (9, 24.0)))
    steady = Claim("steady", priority=0, least=2, curve=line((2, 4.0), (3, 8.0), (4, 12.0)))
    steep = Claim("steep", priority=0, least=2, curve=line((2, 4.0), (3, 10.0), (4, 16.0)))

    assert allocate([wide, steady], gpus=11) == {"wide": 9, "steady": 2}
    assert allocate([wide, steep], gpus=11) == {"wide": 5, "steep": 4}


def test_gpus_that_a_wide_step_cannot_use_go_to_another_pool() -> None:
    wide = Claim("wide", priority=0, least=5, curve=line((5, 4.0), (9, 24.0)))
    steady = Claim("steady", priority=0, least=2, curve=line((2, 4.0), (3, 8.0), (4, 12.0)))

    assert allocate([wide, steady], gpus=10) == {"wide": 5, "steady": 4}


def test_what_a_pool_has_goes_to_an_equal_only_if_it_serves_clearly_more_there() -> None:
    having = Claim("having", priority=0, least=2, curve=line((2, 1.0), (4, 10.0)), asked=4)
    better = Claim("better", priority=0, least=2, curve=line((2, 1.0), (4, 15.0)))
    much_better = replace(better, curve=line((2, 1.0), (4, 30.0)))

    assert allocate([having, better], gpus=6) == {"having": 4, "better": 2}
    assert allocate([having, much_better], gpus=6) == {"having": 2, "better": 4}
    assert allocate([having, replace(better, priority=1)], gpus=6) == {"having": 2, "better": 4}


def test_a_new_pool_takes_no_running_minimum() -> None:
    running = Claim("running", priority=0, least=4, asked=4)
    new = Claim("new", priority=10, least=4)

    assert allocate([running, new], gpus=6) == {"running": 4, "new": 0}


def test_the_minimum_of_a_new_pool_comes_before_growth_of_any_priority() -> None:
    grown = Claim("grown", priority=10, least=2, curve=line((2, 1.0), (8, 50.0)), asked=8)
    new = Claim("new", priority=0, least=2)

    assert allocate([grown, new], gpus=8) == {"grown": 6, "new": 2}


def test_a_dip_of_one_tick_gives_nothing_away_and_half_a_minute_does() -> None:
    high, low = line((2, 1.0), (5, 20.0)), line((2, 1.0), (3, 9.0))
    last = Crest(NOW_S, high)

    during, kept = crest_of(last, low, asked_gpus=5, now_s=NOW_S + 5.0)
    after, _ = crest_of(kept, low, asked_gpus=5, now_s=NOW_S + TUNING.quota.crest_s + 1.0)
    not_held, _ = crest_of(last, low, asked_gpus=3, now_s=NOW_S + 5.0)

    assert (during, after, not_held) == (high, low, low)


def test_without_a_quota_nothing_changes() -> None:
    seen = observe(prefill=2, decode=2)

    alone = decide(make_spec(), seen, Memory(), NOW_S)[0]
    roomy = tick(quota(1000), seen)

    assert alone.share is None
    assert alone.roles == roomy.roles


def test_a_new_pool_waits_at_zero_in_both_roles_until_its_whole_minimum_is_free() -> None:
    waiting = tick(quota(6, neighbour(5)), NEW)
    started = tick(quota(6, neighbour(4)), observe(prefill=0, decode=0))

    assert {plan.to for plan in waiting.roles.values()} == {0}
    assert {plan.reason for plan in waiting.roles.values()} == {Reason.NAMESPACE_QUOTA}
    assert waiting.capacity_blocked == (
        "minReplicas needs 2 GPUs; the namespace quota of 6 GPUs is shared with pool chat"
        " (priority 10)"
    )
    assert {plan.to for plan in started.roles.values()} == {1}


def test_a_new_pool_waits_while_no_pool_can_give_up_gpus_for_its_minimum() -> None:
    # All but one of the GPUs are in use, by a pool that holds no more than its own minimum.
    waiting = tick(quota(3, neighbour(2), hard_gpus=4), NEW)

    assert {plan.to for plan in waiting.roles.values()} == {0}
    assert waiting.capacity_blocked is not None
    assert "minReplicas needs 2 GPUs" in waiting.capacity_blocked


def test_a_minimum_that_can_never_fit_is_left_to_the_platform_to_refuse() -> None:
    decision = tick(quota(1), NEW)

    assert {plan.to for plan in decision.roles.values()} == {1}
    assert {plan.reason for plan in decision.roles.values()} == {Reason.INITIAL}


def test_an_unmeasured_pool_loses_nothing_to_a_higher_priority() -> None:
    greedy = neighbour(4, curve=line((2, 1.0), (12, 100.0)))

    decision = tick(quota(10, greedy), observe(prefill=3, decode=3, routers=()))

    assert {plan.to for plan in decision.roles.values()} == {3}
    assert decision.share is not None
    assert decision.share.gpus == 6


def test_a_pool_at_rest_gives_gpus_to_a_higher_priority_and_names_that_pool() -> None:
    greedy = neighbour(4, curve=line((2, 1.0), (8, 100.0)))

    decision = tick(quota(10, greedy), observe(prefill=3, decode=3))

    assert {plan.to for plan in decision.roles.values()} == {1}
    assert {plan.reason for plan in decision.roles.values()} == {Reason.NAMESPACE_QUOTA}
    assert decision.roles[Role.PREFILL].limits_hit == ("namespace quota",)
    assert decision.roles[Role.PREFILL].sentence == (
        "prefill 3 -> 1: the namespace quota of 10 GPUs is shared with pool chat (priority 10)"
    )


def test_gpus_of_terminating_neighbours_are_not_there_yet() -> None:
    leaving = replace(neighbour(2), held=5)
    seen = observe(prefill=0, decode=0)

    assert {p.to for p in tick(quota(6, leaving), seen).roles.values()} == {0}
    assert {p.to for p in tick(quota(6, neighbour(2)), seen).roles.values()} == {1}


def test_gpus_that_were_granted_to_a_neighbour_are_taken_before_it_uses_them() -> None:
    granted = neighbour(2, granted=5, curve=line((2, 1.0), (4, 9.0)))

    decision = tick(quota(6, granted), observe(prefill=0, decode=0))

    assert {plan.to for plan in decision.roles.values()} == {0}


def test_own_terminating_pods_hold_their_share_until_they_are_gone() -> None:
    leaving = pods(Role.PREFILL, 2, phase=PodPhase.TERMINATING)
    spec = make_spec(low=2)

    held = tick(quota(4), observe(prefill=1, decode=1, extra_pods=leaving), spec=spec)
    free = tick(quota(4), observe(prefill=1, decode=1), spec=spec)

    assert sum(plan.to for plan in held.roles.values()) == 2
    assert sum(plan.to for plan in free.roles.values()) == 4


@pytest.mark.parametrize(
    ("mode", "managed", "claims"),
    [
        (Mode.AUTO, True, True),
        (Mode.RECOMMEND, True, False),
        (Mode.PAUSED, True, False),
        (Mode.AUTO, False, False),
    ],
)
def test_only_a_pool_whose_counts_tandem_sets_claims_from_its_neighbours(
    mode: Mode, managed: bool, claims: bool
) -> None:
    spec = make_spec(mode=mode, managed=dict.fromkeys(Role, managed))

    share = tick(quota(8), observe(), spec=spec).share

    assert share is not None
    assert (share.claim is not None) is claims


def test_the_tighter_of_budget_and_share_is_named() -> None:
    seen = observe(prefill=3, decode=3)

    by_budget = tick(quota(8), seen, spec=make_spec(gpu_budget=4))
    by_quota = tick(quota(4), seen, spec=make_spec(gpu_budget=5))

    assert "gpuBudget 4" in by_budget.sentence
    assert "the namespace quota of 4 GPUs has no free GPU" in by_quota.sentence


def test_gpus_that_no_pool_wants_are_room_for_a_rollout() -> None:
    wanting = neighbour(2, curve=line((2, 1.0), (4, 9.0)))

    share = tick(quota(8, wanting), observe()).share

    assert share is not None
    assert (share.gpus, share.surge_gpus) == (2, 4)


def test_neighbours_are_named_by_priority_and_no_more_than_a_few() -> None:
    claims = [neighbour(2, pool=f"p{i}", priority=i) for i in range(5)]

    words = quota(16, *claims).words

    assert words == (
        "the namespace quota of 16 GPUs is shared with pools p4 (priority 4), p3"
        " (priority 3), p2 (priority 2) and 2 more"
    )


def test_pods_of_no_pool_are_named_too() -> None:
    assert quota(5, neighbour(2), hard_gpus=8).words.endswith(
        "shared with pool chat (priority 10) and other pods"
    )
    assert quota(5, hard_gpus=8).words.endswith("quota of 8 GPUs is shared with other pods")
    assert quota(8).words.endswith("quota of 8 GPUs has no free GPU")


def test_the_crest_survives_a_restart() -> None:
    memory = Memory(crest=Crest(NOW_S, curve_of(make_spec(high=8))))

    assert memory_from_json(memory_to_json(memory)) == memory
