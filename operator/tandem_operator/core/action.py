"""The last steps of a decision: what is wanted and granted, what is done, and how it is told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from tandem_operator.core.assessment import TICK_S, Assessment, Observed
from tandem_operator.core.decision import Decision, Reason
from tandem_operator.core.explain.decision_report import report
from tandem_operator.core.explain.tick_result import View
from tandem_operator.core.guard.growth_confirmation import Past, remember
from tandem_operator.core.guard.guard import Scene, guard, hold
from tandem_operator.core.guard.node_drain import Relief, relieve
from tandem_operator.core.guard.replacements import with_stand_ins
from tandem_operator.core.guard.stabilization import Wants
from tandem_operator.core.learn.correction import urgent_floors
from tandem_operator.core.memory import Memory
from tandem_operator.core.objective.promise import Promise
from tandem_operator.core.observe.arrivals import outcomes
from tandem_operator.core.quota.demand_curve import Curve, demand_curve
from tandem_operator.core.quota.share import Crest, Quota, Share, crest_of, take_share
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.replica_counts import gpus_of
from tandem_operator.core.sizing.role_targets import Plan, plan_for
from tandem_operator.core.sizing.scale_down_margin import tells_enough
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning

RECENT_S = 120


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the pool would hold if it had all GPUs.

    Attributes:
        spec: with the insurance's stabilisation window.
        plan: `None` while too little is known. `replan` makes another under a spec and floors.
        floors: what violations demanded; `urgent` says which demand it now.
        idle: whether it is sure that nothing came and nothing is inside.
    """

    spec: PoolSpec
    plan: Plan | None
    replan: Callable[..., Plan | None]
    promise: Promise
    floors: Mapping[Role, int]
    urgent: Mapping[Role, int]
    idle: bool


def want(spec: PoolSpec, known: Assessment, memory: Memory, *, tuning: Tuning = TUNING) -> Wanted:
    """Choose both counts for what will come, with what the objective holds against bursts."""
    seen, taught, sized = known.seen, known.taught, known.sized
    situation, arrivals, routers = sized.situation, seen.arrivals, seen.observation.routers
    promise = memory.promise.look(
        spec,
        routers=routers,
        arrivals=arrivals,
        situation=situation,
        lead_s=seen.lead_s,
        output_tokens=None if taught.outputs is None else taught.outputs.mean_tokens,
        tuning=tuning,
    )
    spec = promise.patient(spec)
    idle = _is_idle(spec, seen, tuning=tuning)
    urgent, floors = dict[Role, int](), dict[Role, int]()
    if situation is None or situation.feasible:
        urgent = urgent_floors(
            seen.ready, taught.settled, routers, attainment=spec.slo.attainment, tuning=tuning
        )
        # What violations bought is not given back before it could be seen whether it helped.
        floors = {r: n for r, n in memory.floors.items() if r not in taught.settled} | urgent
    replan = partial(
        plan_for,
        situation=situation,
        expected=known.ahead.expected,
        fleets=seen.fleets,
        late_price=sized.correction.price,
        idle=idle,
        known_s=arrivals.known_s,
        tuning=tuning,
    )
    plan, promise = promise.insure(
        partial(replan, spec),
        floors=floors,
        arrivals=arrivals,
        situation=situation,
        idle=idle,
        tuning=tuning,
    )
    return Wanted(
        spec=spec,
        plan=plan,
        replan=replan,
        promise=promise,
        floors=floors,
        urgent=urgent,
        idle=idle,
    )


@dataclass(frozen=True, slots=True)
class Granted:
    """What of it the namespace's quota leaves; `share` is `None` where there is no quota."""

    spec: PoolSpec
    plan: Plan | None
    share: Share | None = None
    crest: Crest | None = None


def grant(
    wanted: Wanted,
    known: Assessment,
    memory: Memory,
    quota: Quota | None,
    *,
    tuning: Tuning = TUNING,
) -> Granted:
    """Take the pool's share of a quota, by the most that it wanted of late."""
    seen, spec, plan = known.seen, wanted.spec, wanted.plan
    fresh = seen.fresh
    if quota is None:
        return Granted(spec=spec, plan=plan)
    asked_gpus = gpus_of(spec, {role: seen.fleets[role].asked or 0 for role in Role})
    curve = _curve(wanted, known, tuning=tuning) if fresh.act and not wanted.idle else ()
    curve, crest = crest_of(
        memory.crest, curve, asked_gpus=asked_gpus, now_s=seen.now_s, tuning=tuning
    )
    keep_all = plan is None or not (fresh.act and fresh.shrink)
    share = take_share(spec, quota, seen.fleets, curve=curve, keep_all=keep_all, tuning=tuning)
    spec = share.limit(spec)
    if plan is not None and plan.gpus(spec) > share.gpus:
        # What was replayed for the first choice is remembered.
        plan = wanted.replan(spec, floors=wanted.promise.floors(wanted.floors))
    return Granted(spec=spec, plan=plan, share=share, crest=crest)


def _curve(wanted: Wanted, known: Assessment, *, tuning: Tuning = TUNING) -> Curve:
    """What more GPUs would buy, up to what the plan wants."""
    spec, plan, situation = wanted.spec, wanted.plan, known.sized.situation
    expected, fleets = known.ahead.expected, known.seen.fleets
    if plan is None or situation is None or expected is None:
        return ()
    return demand_curve(
        spec,
        expected,
        situation.demands,
        target=plan.choice.target,
        fixed={role: fleets[role].asked or 0 for role in Role if not spec.roles[role].managed},
        good_share=situation.good_share,
        tuning=tuning,
    )


@dataclass(frozen=True, slots=True)
class Done:
    """What is asked for now, and what is remembered of what was wanted."""

    relief: Relief
    past: Mapping[Role, Past]


def act(
    wanted: Wanted,
    granted: Granted,
    known: Assessment,
    memory: Memory,
    *,
    tuning: Tuning = TUNING,
) -> Done:
    """Confirm growth, delay shrinking, and keep a pod where its node is being emptied."""
    seen, ahead = known.seen, known.ahead
    spec, plan, fresh, fleets = granted.spec, granted.plan, seen.fresh, seen.fleets
    past, target = memory.past, None
    if plan is None or not fresh.act:
        allowed = hold(spec, fleets, Reason.STEADY if fresh.act else Reason.STALE_METRICS)
    else:
        due = plan.each(partial(with_stand_ins, fleets=fleets, spec=spec))
        past = remember(past, due, spec=spec, now_s=seen.now_s, tuning=tuning)
        hasty = ahead.expected is not None and ahead.expected.hasty
        scene = Scene(
            fleets=fleets,
            may_shrink=fresh.shrink,
            enough_history=tells_enough(seen.arrivals, since_s=ahead.track.since_s, tuning=tuning),
            idle=wanted.idle,
            urgent=frozenset(Role if hasty else wanted.urgent),
        )
        target = due.choice.target
        allowed = guard(spec, due.choice, past, scene, seen.now_s, tuning=tuning)
    share = granted.share
    relief = relieve(
        wanted.spec if share is None else share.with_surge(wanted.spec),
        fleets,
        allowed,
        under_way=memory.relieved,
        wanted=target,
    )
    return Done(relief=relief, past=past if seen.arrivals.complete else _unwatched(past))


def tell(
    wanted: Wanted, granted: Granted, done: Done, known: Assessment, *, tuning: Tuning = TUNING
) -> Decision:
    """The decision in words and numbers."""
    seen, ahead, sized = known.seen, known.ahead, known.sized
    return report(
        View(
            spec=granted.spec,
            now_s=seen.now_s,
            next_tick_s=TICK_S,
            fresh=seen.fresh,
            fleets=seen.fleets,
            starts=seen.starts,
            allowed=done.relief.allowed,
            plan=granted.plan,
            forecast=ahead.expected,
            situation=sized.situation,
            correction=sized.correction,
            minute=seen.minute,
            recent=outcomes(seen.observation.routers, window_s=RECENT_S),
            latency=seen.observation.latency,
            # Two seconds of history tell no rate, as they tell no forecast.
            rate_rps=None if ahead.expected is None else sized.rate_rps,
            overhead_s=sized.overhead_s,
            idle=wanted.idle,
            share=granted.share,
            pace=sized.pace,
            budget=wanted.promise.budget.left(
                wanted.spec.slo.attainment, now_s=seen.now_s, tuning=tuning
            ),
            kept_on_nodes=done.relief.blocked,
        )
    )


def _unwatched(past: Mapping[Role, Past]) -> dict[Role, Past]:
    """The past with no word on what may go: a load of which a part was not seen tells nothing."""
    return {role: replace(each, keeps=Wants()) for role, each in past.items()}


def _is_idle(spec: PoolSpec, seen: Observed, *, tuning: Tuning = TUNING) -> bool:
    """Whether it is confirmed, not merely unseen, that nothing came and nothing is in the pool."""
    window_s = int(max(tuning.guard.idle_s, spec.stabilization_s))
    if not seen.fresh.shrink or seen.arrivals.known_s < max(window_s, tuning.sizing.seen_s):
        return False
    routers = seen.observation.routers
    inside = sum(r.queued_requests + r.prefill_requests + r.decode_requests for r in routers)
    return inside == 0 and not any(seen.arrivals.counts[-window_s:])
