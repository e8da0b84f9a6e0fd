"""One tick: observation and memory in, decision and memory out. Pure, total, deterministic."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from tandem_operator.core.decision import Decision, Reason
from tandem_operator.core.explain.decision_report import report
from tandem_operator.core.explain.tick_result import View
from tandem_operator.core.forecast.distribution import Forecast
from tandem_operator.core.forecast.forecaster import LOOK_AHEAD_S, forecast
from tandem_operator.core.guard.guard import Past, Scene, guard, hold, remember
from tandem_operator.core.guard.node_drain import relieve
from tandem_operator.core.guard.replacements import with_stand_ins
from tandem_operator.core.guard.stabilization import Wants
from tandem_operator.core.learn.correction import (
    LONGER_S,
    MINUTE_S,
    correct,
    see_ready,
    urgent_floors,
)
from tandem_operator.core.learn.measurements import learn
from tandem_operator.core.learn.output_lengths import output_lengths
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import Observation
from tandem_operator.core.observe.arrivals import Arrivals, merge, outcomes
from tandem_operator.core.observe.fleet import Fleet, fleet
from tandem_operator.core.observe.freshness import Freshness, freshness, usable
from tandem_operator.core.quota.demand_curve import Curve, demand_curve
from tandem_operator.core.quota.share import Crest, Quota, Share, crest_of, take_share
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_speed import pace_to_tell
from tandem_operator.core.sizing.demand import (
    Situation,
    assess,
    backlog_of,
    first_overhead_s,
    learn_overhead,
)
from tandem_operator.core.sizing.optimizer import gpus_of
from tandem_operator.core.sizing.router_credit import insured, trusted
from tandem_operator.core.sizing.scale_down_margin import SEEN_S, tells_enough
from tandem_operator.core.sizing.targets import Plan, plan_for
from tandem_operator.core.spec import PoolSpec

TICK_S = 5.0
LONGEST_STEP_S = 30.0
RECENT_S = 120
RATE_S = 30
IDLE_S = 60


def decide(
    spec: PoolSpec,
    observation: Observation,
    memory: Memory,
    now_s: float,
    *,
    quota: Quota | None = None,
) -> tuple[Decision, Memory]:
    """The replica counts of one pool at `now_s`, why, and what to remember for the next tick.

    `quota` is what the pool shares with others, where it shares anything.
    """
    seen = usable(observation, now_s)
    fresh = freshness(seen, now_s)
    starts = memory.starts.learn(seen.pods, last_look_s=memory.at_s)
    fleets = {role: fleet(seen, role, starts, now_s) for role in Role}
    ready = {role: len(each.ready) for role, each in fleets.items()}
    learned = learn(memory.learned, seen, max_num_seqs=spec.max_num_seqs)
    arrivals = merge(seen.routers, expected=seen.router_pods, turned_away=seen.turned_away)
    outputs = output_lengths(
        seen.routers,
        memory.outputs,
        counts=arrivals.counts,
        token_s=None if seen.latency is None else seen.latency.tpot.p50_s,
        step_s=_step_s(memory, now_s),
    )
    minute, longer = (outcomes(seen.routers, window_s=s) for s in (MINUTE_S, LONGER_S))
    correction = correct(
        see_ready(memory.correction, ready, now_s),
        minute=minute,
        longer=longer,
        attainment=spec.slo.attainment,
        step_s=_step_s(memory, now_s),
        now_s=now_s,
    )
    settled = frozenset(role for role in Role if correction.settled(role, now_s))
    lead_s = TICK_S + max(starts.expected_s(role) for role in Role)
    expected, track = forecast(
        memory.track, arrivals, lead_s=lead_s, now_s=now_s, history=memory.promise.history
    )
    expected = trusted(spec.insurance, expected, known_s=arrivals.known_s)
    models = learned.of(fleets[Role.DECODE].revision or fleets[Role.PREFILL].revision)
    overhead_s = (
        first_overhead_s(models, seen.engines) if memory.overhead_s is None else memory.overhead_s
    )
    # Before steps were timed nothing that was served has been transferred: it is guessed anew.
    lasting = memory.overhead_s is not None or models.step.line.measured
    situation = insured(
        spec.insurance,
        assess(
            spec,
            arrivals,
            models=models,
            outputs=outputs,
            correction=correction,
            overhead_s=overhead_s,
            backlog=backlog_of(seen.routers, clear_s=lead_s + LOOK_AHEAD_S),
        ),
    )
    pace = pace_to_tell(memory.pace, situation, max_num_seqs=spec.max_num_seqs, now_s=now_s)
    rate_rps = arrivals.rate_rps(RATE_S) or 0.0
    if situation is not None:
        if lasting:
            overhead_s = learn_overhead(
                overhead_s,
                situation,
                seen.latency,
                rate_rps=rate_rps,
                ready=ready,
                settled=len(settled) == len(Role),
                slo_ttft_s=spec.slo.ttft_s,
            )
        correction = replace(
            correction,
            expected_late={r: situation.violated_share(r, rate_rps, ready[r]) for r in Role},
        )
    promise = memory.promise.look(
        spec,
        routers=seen.routers,
        arrivals=arrivals,
        situation=situation,
        lead_s={role: TICK_S + starts.expected_s(role) for role in Role},
        output_tokens=None if outputs is None else outputs.mean_tokens,
    )
    spec = promise.patient(spec)
    idle = _is_idle(spec, arrivals, seen, fresh)
    urgent, floors = dict[Role, int](), dict[Role, int]()
    if situation is None or situation.feasible:
        urgent = urgent_floors(ready, settled, seen.routers, attainment=spec.slo.attainment)
        # What violations bought is not given back before it could be seen whether it helped.
        floors = {r: n for r, n in memory.floors.items() if r not in settled} | urgent
    planned = partial(
        plan_for,
        situation=situation,
        expected=expected,
        fleets=fleets,
        late_price=correction.price,
        idle=idle,
        known_s=arrivals.known_s,
    )
    plan, promise = promise.insure(
        partial(planned, spec),
        floors=floors,
        arrivals=arrivals,
        busy=None if situation is None else situation.busy,
        idle=idle,
    )
    own, share, crest = spec, None, None
    if quota is not None:
        share, crest = _share(
            spec,
            quota,
            fleets,
            _curve(spec, situation, expected, fleets, plan) if fresh.act and not idle else (),
            before=memory.crest,
            keep_all=plan is None or not (fresh.act and fresh.shrink),
            now_s=now_s,
        )
        spec = share.limit(spec)
        if plan is not None and plan.gpus(spec) > share.gpus:
            # What was replayed for the first choice is remembered.
            plan = planned(spec, floors=promise.floors(floors))
    past, wanted = memory.past, None
    if plan is None or not fresh.act:
        allowed = hold(spec, fleets, Reason.STEADY if fresh.act else Reason.STALE_METRICS)
    else:
        due = plan.each(partial(with_stand_ins, fleets=fleets, spec=spec))
        past = remember(past, due, spec=spec, now_s=now_s)
        scene = Scene(
            fleets=fleets,
            may_shrink=fresh.shrink,
            told=tells_enough(arrivals, since_s=track.since_s),
            idle=idle,
            urgent=frozenset(Role if expected is not None and expected.hasty else urgent),
        )
        wanted, allowed = due.choice.target, guard(spec, due.choice, past, scene, now_s)
    relief = relieve(
        own if share is None else share.with_surge(own),
        fleets,
        allowed,
        under_way=memory.relieved,
        wanted=wanted,
    )
    decision = report(
        View(
            spec=spec,
            now_s=now_s,
            next_tick_s=TICK_S,
            fresh=fresh,
            fleets=fleets,
            starts=starts,
            allowed=relief.allowed,
            plan=plan,
            forecast=expected,
            situation=situation,
            correction=correction,
            minute=minute,
            recent=outcomes(seen.routers, window_s=RECENT_S),
            latency=seen.latency,
            # Two seconds of history tell no rate, as they tell no forecast.
            rate_rps=None if expected is None else rate_rps,
            overhead_s=overhead_s if lasting else None,
            idle=idle,
            share=share,
            pace=pace,
            budget=promise.budget.left(spec.slo.attainment),
            kept_on_nodes=relief.blocked,
        )
    )
    return decision, Memory(
        at_s=now_s,
        learned=learned,
        starts=starts,
        track=track,
        correction=correction,
        past=past if arrivals.complete else _unwatched(past),
        floors=floors,
        outputs=outputs,
        overhead_s=overhead_s if lasting else None,
        crest=crest,
        pace=pace,
        relieved=relief.roles,
        promise=promise,
    )


def _share(
    spec: PoolSpec,
    quota: Quota,
    fleets: Mapping[Role, Fleet],
    curve: Curve,
    *,
    before: Crest | None,
    keep_all: bool,
    now_s: float,
) -> tuple[Share, Crest | None]:
    """The pool's part of the namespace's quota, by the most that it wanted of late."""
    asked_gpus = gpus_of(spec, {role: fleets[role].asked or 0 for role in Role})
    curve, crest = crest_of(before, curve, asked_gpus=asked_gpus, now_s=now_s)
    return take_share(spec, quota, fleets, curve=curve, keep_all=keep_all), crest


def _curve(
    spec: PoolSpec,
    situation: Situation | None,
    expected: Forecast | None,
    fleets: Mapping[Role, Fleet],
    plan: Plan | None,
) -> Curve:
    """What more GPUs would buy, up to what the plan wants."""
    if plan is None or situation is None or expected is None:
        return ()
    return demand_curve(
        spec,
        expected,
        situation.demands,
        target=plan.choice.target,
        fixed={role: fleets[role].asked or 0 for role in Role if not spec.roles[role].managed},
        good_share=situation.good_share,
    )


def _unwatched(past: Mapping[Role, Past]) -> dict[Role, Past]:
    """The past with no word on what may go: a load of which a part was not seen tells nothing."""
    return {role: replace(each, keeps=Wants()) for role, each in past.items()}


def _step_s(memory: Memory, now_s: float) -> float:
    if memory.at_s is None:
        return 0.0
    return min(LONGEST_STEP_S, max(0.0, now_s - memory.at_s))


def _is_idle(spec: PoolSpec, arrivals: Arrivals, seen: Observation, fresh: Freshness) -> bool:
    """Whether it is confirmed, not merely unseen, that nothing came and nothing is in the pool."""
    window_s = int(max(IDLE_S, spec.stabilization_s))
    if not fresh.shrink or arrivals.known_s < max(window_s, SEEN_S):
        return False
    inside = sum(r.queued_requests + r.prefill_requests + r.decode_requests for r in seen.routers)
    return inside == 0 and not any(arrivals.counts[-window_s:])
