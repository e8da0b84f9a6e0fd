"""A decision's prohibitions, at moments of pools that really lived."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tandem_operator.core.decide import decide
from tandem_operator.core.decision import Decision, Reason
from tandem_operator.core.forecast.change_point import last_step_s
from tandem_operator.core.objective.promise import Promise
from tandem_operator.core.observation import EngineSample, Observation, PodPhase, RouterReport
from tandem_operator.core.observe.arrivals import merge
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import Mode, PoolSpec
from tandem_operator.workloads.stored_memory import memory_from_json, memory_to_json
from tests.property.moments import LIVES, Moment, life, moments, sized, wanted

shares = st.floats(0.0, 1.0)


def counts(decision: Decision) -> dict[Role, int]:
    return {role: plan.to for role, plan in decision.roles.items()}


def ordered(spec: PoolSpec, decision: Decision, role: Role) -> bool:
    """Return whether the user's bounds or budget ask for the change, whatever the metrics say."""
    plan, bounds = decision.roles[role], spec.roles[role]
    outside = not bounds.min_replicas <= plan.current <= bounds.max_replicas
    return outside or "gpuBudget" in plan.limits_hit


def aged(seen: Observation, by_s: float) -> Observation:
    """Return the same metrics, sampled longer ago; pods are known from the API server."""
    return replace(
        seen,
        engines=tuple(replace(s, sampled_s=s.sampled_s - by_s) for s in seen.engines),
        routers=tuple(replace(r, sampled_s=r.sampled_s - by_s) for r in seen.routers),
    )


def garbled(seen: Observation) -> Observation:
    """Return the observation with an impossible number in every answer."""

    def engine(sample: EngineSample) -> EngineSample:
        return replace(sample, running=float("nan"))

    def router(report: RouterReport) -> RouterReport:
        return replace(report, legs=tuple(replace(leg, busy_s=-1.0) for leg in report.legs))

    return replace(
        seen,
        engines=tuple(engine(s) for s in seen.engines),
        routers=tuple(router(r) for r in seen.routers),
    )


BLIND: dict[str, Callable[[Observation], Observation]] = {
    "nobody answered": lambda seen: replace(seen, engines=(), routers=()),
    "no router answered": lambda seen: replace(seen, routers=()),
    "no engine answered": lambda seen: replace(seen, engines=()),
    "all answers are a minute old": lambda seen: aged(seen, 60.0),
    "all answers are garbage": garbled,
}


@pytest.mark.parametrize("blindness", BLIND.values(), ids=BLIND.keys())
@given(moments)
def test_nothing_changes_when_too_little_is_seen(
    blindness: Callable[[Observation], Observation], moment: Moment
) -> None:
    seen = blindness(moment.seen)
    settled = [
        pod
        for pod in seen.pods
        if pod.phase is PodPhase.READY and (moment.now_s - (pod.ready_s or 0.0)) > 30.0
    ]
    assume(settled)

    decision, _ = moment.decide(seen=seen)

    for role, plan in decision.roles.items():
        if not ordered(moment.spec, decision, role):
            assert plan.to == plan.current
            assert plan.reason is Reason.STALE_METRICS
    assert not decision.fresh


@given(moments, st.data())
def test_one_silent_engine_or_router_stops_every_shrink(
    moment: Moment, data: st.DataObject
) -> None:
    seen = moment.seen
    known = [
        pod.name
        for pod in seen.pods
        if pod.phase is PodPhase.READY and moment.now_s - (pod.ready_s or 0.0) > 30.0
    ]
    assume(known)
    silent = data.draw(st.sampled_from([*known, "router"]))
    if silent == "router":
        seen = replace(seen, router_pods=len(seen.routers) + 1)
    else:
        seen = replace(seen, engines=tuple(s for s in seen.engines if s.pod != silent))

    decision, _ = moment.decide(seen=seen)

    for role, plan in decision.roles.items():
        assert plan.to >= plan.current or ordered(moment.spec, decision, role)


@given(moments, st.integers(2, 16), st.sampled_from([1, 2, 4]), st.data())
def test_no_budget_is_exceeded_by_all_pods_together(
    moment: Moment, budget: int, gpus: int, data: st.DataObject
) -> None:
    roles = {
        role: replace(bounds, gpus_per_replica=data.draw(st.sampled_from([1, gpus])))
        for role, bounds in moment.spec.roles.items()
    }
    least = sum(b.gpus_per_replica * b.min_replicas for b in roles.values())
    spec = replace(moment.spec, roles=roles, gpu_budget=max(least, budget))
    leaving = data.draw(st.integers(0, 3))
    pods = list(moment.seen.pods)
    for index in range(leaving):
        pods.append(replace(pods[0], name=f"leaving-{index}", phase=PodPhase.TERMINATING))

    decision, _ = moment.decide(spec=spec, seen=replace(moment.seen, pods=tuple(pods)))

    held, asked, growing = 0, 0, 0
    for role, plan in decision.roles.items():
        alive = [p for p in pods if p.role is role and p.phase is not PodPhase.TERMINATING]
        gone = sum(1 for p in pods if p.role is role and p.phase is PodPhase.TERMINATING)
        have = max(plan.current, len(alive))
        each = roles[role].gpus_per_replica
        held += each * (have + gone)
        growing += each * max(0, plan.to - have)
        asked += each * plan.to
    assert growing == 0 or held + growing <= spec.gpu_budget
    assert asked <= spec.gpu_budget


@given(moments, st.sampled_from(Role), st.integers(0, 9), st.none() | st.integers(2, 9))
def test_no_role_is_left_at_zero_while_the_other_runs(
    moment: Moment, role: Role, other: int, budget: int | None
) -> None:
    spec = replace(moment.spec, gpu_budget=budget)
    seen = replace(moment.seen, replicas={role: 0, role.other: other})

    decision, _ = moment.decide(spec=spec, seen=seen)

    # Where the budget has no room for the first replica yet, the other role makes it.
    makes_room = decision.roles[role.other].to < other
    held = sum(1 for pod in seen.pods)
    waits = budget is not None and held >= budget
    assert counts(decision)[role.other] >= 1 or waits
    assert counts(decision)[role] >= 1 or makes_room or waits


@given(moments, st.sampled_from(Role), st.none() | st.integers(2, 9))
def test_a_role_of_another_owner_is_told_about_and_its_gpus_are_respected(
    moment: Moment, role: Role, budget: int | None
) -> None:
    roles = dict(moment.spec.roles) | {role: replace(moment.spec.roles[role], managed=False)}
    spec = replace(moment.spec, roles=roles, gpu_budget=budget)

    decision, _ = moment.decide(spec=spec)

    assert decision.roles[role].reason is Reason.NOT_MANAGED
    mine, theirs = decision.roles[role.other], decision.roles[role]
    if budget is not None and mine.to > mine.current:
        assert mine.to + theirs.current <= budget


@given(moments, st.sampled_from([Mode.PAUSED, Mode.RECOMMEND]))
def test_a_mode_changes_words_and_no_numbers(moment: Moment, mode: Mode) -> None:
    decision, memory = moment.decide(spec=replace(moment.spec, mode=mode))

    plain, plain_memory = moment.decide()
    assert counts(decision) == counts(plain)
    assert memory == plain_memory
    for plan in decision.roles.values():
        assert plan.reason is Reason.PAUSED or mode is Mode.RECOMMEND


@given(st.integers(0, len(LIVES) - 1), shares)
def test_a_restart_in_the_middle_changes_nothing_from_then_on(index: int, share: float) -> None:
    lived = life(index)
    start = int(share * (len(lived) - 1))
    memory = memory_from_json(memory_to_json(lived[start].memory))
    for moment in lived[start : start + 5]:
        decision, memory = decide(moment.spec, moment.seen, memory, moment.now_s)
        assert decision == moment.decision
        memory = memory_from_json(memory_to_json(memory))


def busier(seen: Observation, factor: int) -> Observation:
    """Return the same, had every arrival been `factor` arrivals."""

    def report(r: RouterReport) -> RouterReport:
        rows = tuple(
            replace(
                row,
                requests=tuple(n * factor for n in row.requests),
                prompt_tokens=tuple(n * factor for n in row.prompt_tokens),
                cached_tokens=row.cached_tokens * factor,
                cached_by_bucket=tuple(n * factor for n in row.cached_by_bucket),
            )
            for row in r.arrivals
        )
        return replace(r, arrivals=rows)

    return replace(seen, routers=tuple(report(r) for r in seen.routers))


def step_s(seen: Observation) -> int | None:
    return last_step_s(merge(seen.routers, expected=1).counts)


@given(sized, st.integers(2, 4))
def test_more_demand_never_wants_fewer_replicas(moment: Moment, factor: int) -> None:
    roles = {role: replace(b, max_replicas=60) for role, b in moment.spec.roles.items()}
    spec, more = replace(moment.spec, roles=roles), busier(moment.seen, factor)
    # A fall that was lost in the noise stands out of twice the traffic: that is less demand.
    assume(step_s(more) == step_s(moment.seen))

    # Against bursts of the past a pool may hold more, or keep longer what it needed.
    bare = replace(moment, memory=replace(moment.memory, promise=Promise()))

    plain, _ = bare.decide(spec=spec)
    busy, _ = bare.decide(spec=spec, seen=more)

    for role in Role:
        assert wanted(busy)[role] >= wanted(plain)[role]


def tightened(slo: Slo, part: str, factor: float) -> Slo:
    if part == "ttft":
        return replace(slo, ttft_s=slo.ttft_s * factor)
    if part == "tpot":
        return replace(slo, tpot_s=slo.tpot_s * factor)
    return replace(slo, attainment=1.0 - (1.0 - slo.attainment) * factor)


@pytest.mark.parametrize("part", ["ttft", "tpot", "attainment"])
@given(sized, st.floats(0.6, 0.98))
def test_a_tighter_slo_never_wants_fewer_replicas(part: str, moment: Moment, factor: float) -> None:
    if moment.spec.gpu_budget is not None:
        # What one role needs now goes before what the other holds against bursts of the past.
        moment = replace(moment, memory=replace(moment.memory, promise=Promise()))
    spec = replace(moment.spec, slo=tightened(moment.spec.slo, part, factor))

    plain, _ = moment.decide()
    tight, _ = moment.decide(spec=spec)

    # A bound that no fleet can keep is reported, not chased.
    assume(tight.slo_feasible)
    more = {role: wanted(tight)[role] - wanted(plain)[role] for role in Role}
    # Routers send whole requests to decode replicas with slack: more of them may save prefill.
    lent = max(0, more[Role.DECODE]) if moment.spec.insurance.overflow else 0
    assert more[Role.DECODE] >= 0
    assert more[Role.PREFILL] >= -lent


@given(sized, st.sampled_from(Role))
def test_what_violations_bought_is_wanted_until_it_could_be_judged(
    moment: Moment, role: Role
) -> None:
    asked = moment.seen.replicas[role] + 1
    memory = replace(moment.memory, floors={role: asked})

    decision, after = decide(moment.spec, moment.seen, memory, moment.now_s)

    assume(decision.fresh)
    assume(decision.slo_feasible)
    # Too early in a life, nothing can be sized.
    assume({"forecast_rps", "prefill_service_s"} <= decision.inputs.keys())
    if not after.correction.settled(role, moment.now_s):
        assert decision.roles[role].wanted >= asked
        assert after.floors[role] >= asked
    elif role in after.floors:
        # Judged, and still burning: the demand is made anew from the Ready replicas.
        assert after.floors[role] > sum(
            1 for pod in moment.seen.pods if pod.role is role and pod.phase is PodPhase.READY
        )


@given(moments)
def test_every_reason_is_one_sentence_that_names_its_role_and_counts(moment: Moment) -> None:
    for role, plan in moment.decision.roles.items():
        change = f"{plan.current} -> {plan.to}" if plan.to != plan.current else f"at {plan.to}"
        assert plan.sentence.startswith(role.value)
        assert change in plan.sentence
        assert "\n" not in plan.sentence
        assert len(plan.sentence) < 400
