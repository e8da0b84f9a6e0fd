"""Whole ticks: holding, bounds, budgets, ownership and the words for them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tandem_operator.core.decide import decide
from tandem_operator.core.decision import Decision, Reason, RoleDecision
from tandem_operator.core.memory import Memory
from tandem_operator.core.objective.insurance import Cover
from tandem_operator.core.objective.promise import Promise
from tandem_operator.core.observation import (
    Latency,
    Observation,
    PodPhase,
    Quantiles,
    StartUp,
)
from tandem_operator.core.observe.demand_history import BUCKET_S, DemandHistory
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_speed import TimedDecodePace
from tandem_operator.core.spec import Mode, PoolSpec
from tests.unit.core.scene import NOW_S, arrival, ended, make_spec, observe, pods, report

REST_S = 400
START_UP = StartUp(prefill=((32.0, 0.08), (1024.0, 0.4)), steps=((1.0, 0.01), (64.0, 0.012)))


def at(observation: Observation, now_s: float) -> Observation:
    """Return the same view, sampled at `now_s`."""
    return replace(
        observation,
        engines=tuple(replace(e, sampled_s=now_s) for e in observation.engines),
        routers=tuple(replace(r, sampled_s=now_s) for r in observation.routers),
    )


def tick(
    observation: Observation, *, spec: PoolSpec | None = None, memory: Memory | None = None
) -> Decision:
    return decide(spec or make_spec(), observation, memory or Memory(), NOW_S)[0]


def rest(
    observation: Observation, *, spec: PoolSpec | None = None, seconds: int = REST_S
) -> list[Decision]:
    """Decide again and again on the same idle view; no decision is carried out."""
    memory, decisions = Memory(), []
    for step in range(0, seconds, 5):
        now_s = NOW_S + step
        decision, memory = decide(spec or make_spec(), at(observation, now_s), memory, now_s)
        decisions.append(decision)
    return decisions


def counts(decision: Decision) -> dict[Role, int]:
    return {role: plan.to for role, plan in decision.roles.items()}


def reasons(decision: Decision) -> set[Reason]:
    return {plan.reason for plan in decision.roles.values()}


def test_a_pool_without_deployments_starts_with_its_minimum() -> None:
    decision = tick(observe(prefill=0, decode=0, replicas={}), spec=make_spec(low=2))

    assert counts(decision) == {Role.PREFILL: 2, Role.DECODE: 2}
    assert reasons(decision) == {Reason.INITIAL}


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"routers": ()}, "fresh metrics from 0 of"),
        ({"routers": (report(now_s=NOW_S - 120),)}, "fresh metrics from 0 of"),
        ({"routers": (report(ended=True),)}, "fresh metrics from 0 of 1 routers"),
        ({"routers": (), "router_pods": 0}, "no router is running"),
        ({"engines": ()}, "0 of 6 Ready engine pods"),
    ],
)
def test_without_fresh_metrics_everything_stays_and_it_is_said_why(
    change: dict[str, object], missing: str
) -> None:
    decision = tick(observe(prefill=3, decode=3, **change))

    assert counts(decision) == {Role.PREFILL: 3, Role.DECODE: 3}
    assert reasons(decision) == {Reason.STALE_METRICS}
    assert not decision.fresh
    assert missing in decision.fresh_message
    assert missing in decision.sentence


def test_one_unscraped_pod_of_six_forbids_shrinking_only() -> None:
    seen = observe(prefill=3, decode=3)
    decisions = rest(replace(seen, engines=seen.engines[1:]))

    assert all(counts(d) == {Role.PREFILL: 3, Role.DECODE: 3} for d in decisions)
    assert decisions[-1].fresh


def test_a_pool_at_confirmed_rest_goes_to_its_minimum_at_once_after_the_window() -> None:
    decisions = rest(observe(prefill=4, decode=3))

    first = next(i for i, d in enumerate(decisions) if counts(d)[Role.PREFILL] < 4)
    assert first * 5 >= 60
    assert counts(decisions[first]) == {Role.PREFILL: 1, Role.DECODE: 1}
    assert decisions[first].roles[Role.PREFILL].reason is Reason.SPARE_CAPACITY


def test_a_silent_router_is_not_a_pool_at_rest() -> None:
    decisions = rest(observe(prefill=4, decode=3, router_pods=2))

    assert all(counts(d) == {Role.PREFILL: 4, Role.DECODE: 3} for d in decisions)


def test_a_router_that_ended_answers_for_no_other() -> None:
    both = (report(), report(router="router-2", ended=True))
    decisions = rest(observe(prefill=4, decode=3, routers=both, router_pods=2))

    assert all(counts(d) == {Role.PREFILL: 4, Role.DECODE: 3} for d in decisions)
    assert "from only 1 of 2 routers" in decisions[-1].fresh_message


@pytest.mark.parametrize("ago_s", [0.0, 29.0])
def test_no_role_shrinks_on_what_a_vanished_router_may_have_taken_with_it(ago_s: float) -> None:
    gone = report(router="router-2", ended=True, lost_s=NOW_S - ago_s)
    decision = tick(observe(prefill=4, decode=3, routers=(report(), gone)))

    assert counts(decision) == {Role.PREFILL: 4, Role.DECODE: 3}
    assert decision.fresh_message == (
        "router router-2 ended, and the requests of its last seconds are unknown"
    )


def test_after_half_a_minute_no_rate_lacks_it_any_more() -> None:
    gone = report(router="router-2", ended=True, lost_s=NOW_S - 30.0)
    decision = tick(observe(prefill=4, decode=3, routers=(report(), gone)))

    assert "from routers and Ready engine pods" in decision.fresh_message


def test_a_pool_that_turns_clients_away_is_not_at_rest() -> None:
    decisions = rest(observe(prefill=4, decode=3, turned_away=True))

    assert all(counts(d) == {Role.PREFILL: 4, Role.DECODE: 3} for d in decisions)
    assert all(d.fresh for d in decisions)
    assert decisions[-1].fresh_message == "no router is Ready, so clients get no answer"


def shrinks_after_s(seen: Callable[[float], Observation], *, until_s: int) -> list[int]:
    """Return when, after `NOW_S`, prefill had to shrink under steady light traffic."""
    spec, memory, shrunk = make_spec(low=1), Memory(), []
    for step in range(0, until_s, 5):
        now_s = NOW_S + step
        observation = seen(now_s)
        seconds = [now_s - age for age in range(300, 0, -1)]
        arrivals = [arrival(second, 1, 100) for second in seconds]
        finished = [ended(second, 1) for second in seconds]
        told = report(now_s=now_s, arrivals=arrivals, finished=finished)
        engines = tuple(
            replace(each, sampled_s=now_s, start_up=START_UP) for each in observation.engines
        )
        observation = replace(observation, routers=(told,), engines=engines)
        decision, memory = decide(spec, observation, memory, now_s)
        if counts(decision)[Role.PREFILL] < 4:
            shrunk.append(step)
    return shrunk


def test_a_fleet_shrinks_only_once_the_whole_window_was_seen_by_every_router() -> None:
    window_s = make_spec().stabilization_s
    always = shrinks_after_s(lambda _: observe(prefill=4, decode=4), until_s=400)
    silent_s = always[0] + 100

    def one_silent(now_s: float) -> Observation:
        silent = now_s < NOW_S + silent_s
        return observe(prefill=4, decode=4, router_pods=2 if silent else 1)

    assert shrinks_after_s(one_silent, until_s=400)[0] >= silent_s + window_s


def two_ticks(
    start_up: StartUp | None,
    *,
    rate_rps: Callable[[float], int] = lambda _age_s: 6,
    started_s: float = NOW_S - 600.0,
) -> tuple[Decision, Decision]:
    """Return two decisions on two minutes of traffic, by its rate over its age."""
    memory, decisions = Memory(), []
    for now_s in (NOW_S, NOW_S + 5.0, NOW_S + 10.0):
        seconds = [now_s - age for age in range(120, 0, -1)]
        arrivals = [arrival(second, rate_rps(NOW_S - second), 1000) for second in seconds]
        finished = [ended(second, 2) for second in seconds]
        routers = [report(now_s=now_s, started_s=started_s, arrivals=arrivals, finished=finished)]
        seen = observe(now_s=now_s, routers=routers)
        engines = tuple(replace(each, start_up=start_up) for each in seen.engines)
        decision, memory = decide(make_spec(), replace(seen, engines=engines), memory, now_s)
        decisions.append(decision)
    return decisions[0], decisions[1]


def test_engines_that_measured_themselves_are_sized_before_their_first_request_is_timed() -> None:
    first, second = two_ticks(START_UP)
    # Six prompts of .39 s each come every second.
    assert counts(first)[Role.PREFILL] == 1
    assert "more replicas may be needed" in first.sentence
    assert counts(second)[Role.PREFILL] >= 3
    assert not any("model_error" in name for name in second.inputs)
    assert counts(two_ticks(None)[1]) == {Role.PREFILL: 1, Role.DECODE: 1}


def test_of_seconds_of_history_neither_rest_nor_a_rate_is_told() -> None:
    first, _ = two_ticks(START_UP, started_s=NOW_S - 8.0)
    known, _ = two_ticks(START_UP, started_s=NOW_S - 60.0)

    assert "too few measurements" in first.sentence
    assert "arrivals_rps" not in first.inputs
    assert known.inputs["arrivals_rps"] == 6


def test_what_the_routers_are_told_is_remembered() -> None:
    memory = Memory(pace=TimedDecodePace((0.01, 0.001, 0.0), 5000.0, 64))

    decision, after = decide(make_spec(), observe(), memory, NOW_S)

    assert decision.pace == after.pace == memory.pace


def test_only_new_traffic_that_climbs_grows_a_pool_at_the_first_look() -> None:
    def first(started_s: float, rate_rps: Callable[[float], int]) -> int:
        decision, _ = two_ticks(START_UP, started_s=started_s, rate_rps=rate_rps)
        return counts(decision)[Role.PREFILL]

    def climb(age_s: float) -> int:
        return 8 - int(age_s / 20.0)

    new, known = NOW_S - 120.0, NOW_S - 600.0
    assert first(new, climb) >= 3
    assert [first(known, climb), first(new, lambda _: 6), first(known, lambda _: 6)] == [1, 1, 1]


def test_a_transfer_counts_in_ttft_though_engines_measured_themselves_before_any() -> None:
    def overhead_s(*, transfers: float) -> float | None:
        memory = Memory()
        for step in range(5):
            now_s = NOW_S + 5.0 * step
            seen = observe(now_s=now_s, routers=[report(now_s=now_s, arrivals=[], finished=[])])
            moved = {"transfer_sum_s": 0.15 * transfers * step, "transfer_count": transfers * step}
            streamed = {"itl_sum_s": 40.0 * step, "itl_count": 4000.0 * step}
            engines = tuple(
                replace(each, start_up=START_UP, **moved, **(streamed if transfers else {}))
                for each in seen.engines
            )
            _, memory = decide(make_spec(), replace(seen, engines=engines), memory, now_s)
        return memory.overhead_s

    assert overhead_s(transfers=0.0) is None
    assert overhead_s(transfers=20.0) == pytest.approx(0.16, rel=0.1)


def served(
    now_s: float, prefill: int, rates: Mapping[float, int], *, started_s: float
) -> Observation:
    """Return the observation of a pool with so many requests each second.

    Its router started at `started_s`.
    """
    coming = [arrival(second, rate, 1000) for second, rate in rates.items() if second < now_s]
    gone = [ended(second, rate) for second, rate in rates.items() if second < now_s]
    routers = [report(now_s=now_s, started_s=started_s, arrivals=coming, finished=gone)]
    seen = observe(now_s=now_s, prefill=prefill, routers=routers)
    return replace(seen, engines=tuple(replace(e, start_up=START_UP) for e in seen.engines))


def watched(
    prefill: int,
    rates: Mapping[float, int],
    *,
    seconds: int,
    started_s: float = NOW_S,
    stabilization_s: float = 60.0,
) -> list[RoleDecision]:
    """Return prefill's decisions over so many seconds; none of them is carried out."""
    memory, spec, found = Memory(), make_spec(stabilization_s=stabilization_s), []
    for step in range(0, seconds, 5):
        seen = served(NOW_S + step, prefill, rates, started_s=started_s)
        decision, memory = decide(spec, seen, memory, NOW_S + step)
        found.append(decision.roles[Role.PREFILL])
    return found


@pytest.mark.parametrize(("busy", "capped"), [(10.0, True), (0.1, False)])
def test_a_fleet_insured_for_its_record_grows_no_further_while_requests_cost_no_more(
    busy: float, capped: bool
) -> None:
    rates = {NOW_S - second: 10 for second in range(-10, 120)}
    end_s = int(NOW_S) // BUCKET_S * BUCKET_S
    cover = Cover(
        floors=dict.fromkeys(Role, 2),
        steady=True,
        end_s=end_s,
        most=dict.fromkeys(Role, 2),
        busy=dict.fromkeys(Role, busy),
        record=10 * BUCKET_S,
    )
    history = DemandHistory(end_s=end_s, requests=(10 * BUCKET_S,))
    memory = Memory(promise=Promise(cover=cover, history=history))

    for now_s in (NOW_S, NOW_S + 5.0, NOW_S + 10.0):
        seen = served(now_s, 2, rates, started_s=NOW_S - 2000.0)
        decision, memory = decide(make_spec(high=12), seen, memory, now_s)

    assert (counts(decision)[Role.PREFILL] == 2) is capped


def test_how_long_answers_are_is_remembered_beside_the_requests_and_corrected_for_their_trend() -> (
    None
):
    rates = {NOW_S - second: 60 - second // 4 for second in range(-30, 220)}

    def remembered(tpot_s: float | None) -> DemandHistory:
        memory = Memory()
        for step in (0.0, 5.0, 10.0, 15.0, 20.0, 25.0):
            seen = served(NOW_S + step, 2, rates, started_s=NOW_S - 2000.0)
            told = Quantiles(tpot_s, tpot_s, tpot_s)
            seen = replace(seen, latency=Latency(NOW_S + step, ttft=told, tpot=told))
            memory = decide(make_spec(), seen, memory, NOW_S + step)[1]
        return memory.promise.history

    plain, growing = remembered(None), remembered(10.0)

    assert plain.output_tokens[-1] == 50
    assert growing.output_tokens[-1] > 50


def first_shrink_s(
    rates: Mapping[float, int], *, started_s: float = NOW_S, memory: Memory | None = None
) -> int:
    """Return the seconds until four prefill pods become fewer."""
    memory, spec = memory or Memory(), make_spec(stabilization_s=10.0)
    for step in range(0, 300, 5):
        now_s = NOW_S + step
        decision, memory = decide(spec, served(now_s, 4, rates, started_s=started_s), memory, now_s)
        if counts(decision)[Role.PREFILL] < 4:
            return step
    raise AssertionError("it never shrinks")


def test_the_less_is_known_of_traffic_the_more_of_it_fewer_replicas_must_bear() -> None:
    def first_s(rate_rps: int, *, known_s: int = 0) -> int:
        rates = {NOW_S + second: rate_rps for second in range(-known_s, 300)}
        return first_shrink_s(rates, started_s=NOW_S - known_s)

    assert first_s(1) == 45
    assert 60 <= first_s(5) <= 90
    assert 105 <= first_s(6) <= 115
    assert first_s(6, known_s=900) <= 15


def test_a_request_or_two_do_not_make_a_pool_known() -> None:
    assert first_shrink_s({NOW_S + 5: 1}) >= 105
    assert first_shrink_s({NOW_S + 5: 1, NOW_S + 8: 28}) >= 105


def test_a_router_that_started_again_does_not_make_a_known_pool_new() -> None:
    before = {NOW_S + second: 6 for second in range(-600, 0)}
    seen = served(NOW_S, 4, before, started_s=NOW_S - 600)
    _, memory = decide(make_spec(), seen, Memory(), NOW_S)
    probes = {NOW_S + second: 1 for second in range(300)}

    assert first_shrink_s(probes) == 45
    assert first_shrink_s(probes, memory=memory) >= 105


def test_while_too_little_is_known_for_fewer_it_is_said() -> None:
    said = watched(4, {NOW_S + second: 1 for second in range(60)}, seconds=50)

    assert said[-2].reason is Reason.NEW_TRAFFIC
    assert said[-2].sentence.endswith(
        "1 replica fewer may be enough, but the traffic history is too short"
    )
    assert said[-1].reason is Reason.STABILIZING


def test_what_a_little_more_load_keeps_is_said() -> None:
    kept = watched(4, {NOW_S + second: 6 for second in range(60)}, seconds=55)[-1]

    assert kept.reason is Reason.STEADY
    assert kept.sentence == (
        "prefill stays at 4: 1 replica fewer would be enough for the forecast,"
        " but not for 68 % more load"
    )


@pytest.mark.parametrize("echo", [False, True])
def test_a_fleet_is_blamed_for_what_becomes_late_now_and_not_for_what_ends_late(
    echo: bool,
) -> None:
    late = {"router_queue": 5}
    rows = [
        ended(NOW_S - ago, 10, good=5, late_ttft=5, blame=late, echoes=late if echo else {})
        for ago in range(300)
    ]
    arrived = [arrival(NOW_S - ago, 10) for ago in range(300)]
    seen = observe(routers=(report(arrivals=arrived, finished=rows),))
    _, memory = decide(make_spec(), at(seen, NOW_S - 100.0), Memory(), NOW_S - 100.0)

    _, memory = decide(make_spec(), seen, memory, NOW_S)

    assert memory.floors == ({} if echo else {Role.PREFILL: 2})


def test_a_count_that_the_forecast_itself_needs_is_not_said_to_be_kept_for_more() -> None:
    rates = {NOW_S + second: 8 for second in range(-600, 20)}

    needed = watched(4, rates, seconds=20, started_s=NOW_S - 600)[-1]

    assert needed.sentence == "prefill stays at 4: TTFT p95 is expected within 1 s"


def test_what_other_counts_would_do_is_told_against_what_the_taken_one_does() -> None:
    def last(prefill: int) -> tuple[str, ...]:
        rates = {NOW_S + second: 8 for second in range(-600, 20)}
        ticks = watched(prefill, rates, seconds=20, started_s=NOW_S - 600, stabilization_s=5.0)
        return ticks[-1].alternatives

    assert last(2) == (
        "2 prefill: 38 % of requests late because of prefill, against 0.33 % with 4",
        "3 prefill: 10 % of requests late because of prefill, against 0.33 % with 4",
        "5 prefill: 0 % of requests late because of prefill, against 0.33 % with 4",
    )
    assert (
        last(8)[-1] == "8 prefill: 0 % of requests late because of prefill, against 0.33 % with 4"
    )
    assert last(4) == ()


def test_a_young_history_without_requests_is_no_rest() -> None:
    young = observe(prefill=4, decode=4, routers=[report(started_s=NOW_S)])

    decisions = rest(young, spec=make_spec(stabilization_s=10.0), seconds=100)

    assert all(counts(d) == {Role.PREFILL: 4, Role.DECODE: 4} for d in decisions)


def test_what_is_said_at_rest_does_not_change() -> None:
    decisions = rest(observe(), seconds=200)[30:]

    assert len({d.sentence for d in decisions}) == 1
    assert len({d.roles[Role.PREFILL].reason for d in decisions}) == 1
    assert len({str(d.inputs) for d in decisions}) == 1


def test_bounds_hold_even_on_stale_data() -> None:
    blind = observe(prefill=6, decode=1, routers=())

    decision = tick(blind, spec=make_spec(low=2, high=4))

    assert counts(decision) == {Role.PREFILL: 4, Role.DECODE: 2}
    assert reasons(decision) == {Reason.AT_BOUND}


def test_a_lowered_budget_cuts_the_larger_fleet_even_on_stale_data() -> None:
    decision = tick(observe(prefill=5, decode=2, routers=()), spec=make_spec(gpu_budget=5))

    assert counts(decision) == {Role.PREFILL: 3, Role.DECODE: 2}
    assert decision.roles[Role.PREFILL].reason is Reason.GPU_BUDGET


def test_terminating_pods_still_count_against_the_budget() -> None:
    leaving = pods(Role.PREFILL, 2, phase=PodPhase.TERMINATING)
    seen = observe(prefill=1, decode=1, extra_pods=leaving)

    decision = tick(seen, spec=make_spec(low=2, gpu_budget=4))

    assert counts(decision) == {Role.PREFILL: 1, Role.DECODE: 1}
    assert reasons(decision) == {Reason.GPU_BUDGET}


def test_one_role_is_never_at_zero() -> None:
    decision = tick(observe(prefill=0, decode=2), spec=make_spec(low=0))

    assert counts(decision)[Role.PREFILL] == 1


def test_a_role_of_another_owner_gets_a_recommendation_only() -> None:
    decision = tick(observe(prefill=9), spec=make_spec(managed={Role.PREFILL: False}))

    plan = decision.roles[Role.PREFILL]
    assert plan.reason is Reason.NOT_MANAGED
    assert "another owner" in plan.sentence
    assert plan.current == 9


def test_a_paused_pool_still_says_what_it_would_do() -> None:
    decision = tick(observe(prefill=1), spec=make_spec(low=2, mode=Mode.PAUSED))

    assert reasons(decision) == {Reason.PAUSED}
    assert counts(decision)[Role.PREFILL] == 2
    assert "1 -> 2" in decision.sentence


@pytest.mark.parametrize(
    ("phase", "problem"),
    [
        (PodPhase.STARTING, "ImagePullBackOff"),
        (PodPhase.UNSCHEDULED, "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."),
        (PodPhase.UNSCHEDULED, None),
    ],
)
def test_pods_that_do_not_come_up_are_named(phase: PodPhase, problem: str | None) -> None:
    stuck = pods(Role.DECODE, 1, phase=phase, problem=problem)

    decision = tick(observe(extra_pods=stuck, replicas={Role.PREFILL: 1, Role.DECODE: 2}))

    assert decision.capacity_blocked is not None
    assert stuck[0].name in decision.capacity_blocked
    assert (problem or "is not scheduled") in decision.capacity_blocked


def test_another_stands_in_for_a_pod_that_is_sick_and_the_sentence_names_it() -> None:
    sick = pods(Role.DECODE, 1, phase=PodPhase.STARTING, problem="CrashLoopBackOff: CUDA error")
    seen = observe(prefill=3, decode=2, extra_pods=sick, replicas={Role.PREFILL: 3, Role.DECODE: 3})

    first, second = rest(seen, spec=make_spec(low=3), seconds=10)
    bounded = rest(seen, spec=make_spec(low=3, high=3), seconds=10)[-1]

    assert counts(first) == {Role.PREFILL: 3, Role.DECODE: 3}
    assert counts(second) == {Role.PREFILL: 3, Role.DECODE: 4}
    assert second.roles[Role.DECODE].reason is Reason.REPLACING_PODS
    assert second.sentence == (
        f"decode 3 -> 4: pod {sick[0].name}: CrashLoopBackOff: CUDA error;"
        " Tandem starts another pod"
    )
    assert counts(bounded) == {Role.PREFILL: 3, Role.DECODE: 3}


def test_a_pod_that_just_starts_blocks_nothing() -> None:
    starting = pods(Role.DECODE, 1, phase=PodPhase.STARTING, created_s=NOW_S - 20)

    decision = tick(observe(extra_pods=starting, replicas={Role.PREFILL: 1, Role.DECODE: 2}))

    assert decision.capacity_blocked is None


def test_a_pod_much_slower_than_any_before_it_is_stuck() -> None:
    late = pods(Role.DECODE, 1, phase=PodPhase.STARTING, created_s=NOW_S - 500)

    decision = tick(observe(extra_pods=late, replicas={Role.PREFILL: 1, Role.DECODE: 2}))

    # The ready pods took 60 s.
    assert decision.capacity_blocked is not None


def test_start_up_times_are_measured_per_role() -> None:
    decision = tick(observe())

    assert decision.inputs["cold_start_prefill_s"] == 60.0
    assert decision.inputs["cold_start_decode_s"] == 60.0
