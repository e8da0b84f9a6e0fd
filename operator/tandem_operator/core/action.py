"""The last steps of a decision: desired counts, quota, allowed changes, and the report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tandem_operator.core.assessment import TICK_S, Assessment, Observed
from tandem_operator.core.decision import Decision, Reason
from tandem_operator.core.explain.decision_report import report
from tandem_operator.core.explain.tick_result import View
from tandem_operator.core.guard.growth_confirmation import Past, remember
from tandem_operator.core.guard.guard import Scene, guard, hold
from tandem_operator.core.guard.node_drain import Relief, relieve
from tandem_operator.core.guard.replacements import with_stand_ins
from tandem_operator.core.guard.sleep import rested
from tandem_operator.core.guard.stabilization import Wants
from tandem_operator.core.learn.correction import urgent_floors
from tandem_operator.core.memory import Memory
from tandem_operator.core.objective.promise import Promise
from tandem_operator.core.objective.rest import Pauses, Rest
from tandem_operator.core.observe.arrivals import by_class, by_tenant, outcomes
from tandem_operator.core.quota.demand_curve import Curve, demand_curve
from tandem_operator.core.quota.share import Crest, Quota, Share, crest_of, take_share
from tandem_operator.core.role import Role
from tandem_operator.core.schedules import NOTHING_CALLED, Called
from tandem_operator.core.sizing.demand import waiting_replicas
from tandem_operator.core.sizing.replica_counts import gpus_of
from tandem_operator.core.sizing.role_targets import Plan, plan_for
from tandem_operator.core.sizing.scale_down_margin import tells_enough
from tandem_operator.core.slo import SloClass
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning

RECENT_S = 120


@dataclass(frozen=True, slots=True)
class Wanted:
    """The plan of the pool as if it had all GPUs.

    Attributes:
        spec: with the insurance's stabilisation window.
        plan: `None` while too little is known. `replan` makes another under a spec and floors.
        floors: counts that violations demanded; `urgent` has those that they demand now.
        idle: whether it is sure that no request came and none is in the pool.
        rest: whether both roles should be at zero.
        pauses: how long the pool is held awake before sleep; `None` if it never sleeps.
        called: what schedules ask for; `spec` has their floors.
    """

    spec: PoolSpec
    plan: Plan | None
    replan: Callable[..., Plan | None]
    promise: Promise
    floors: Mapping[Role, int]
    urgent: Mapping[Role, int]
    idle: bool
    rest: Rest = field(default_factory=Rest)
    pauses: Pauses | None = None
    called: Called = field(default_factory=Called)


def want(
    spec: PoolSpec,
    known: Assessment,
    memory: Memory,
    *,
    called: Called = NOTHING_CALLED,
    tuning: Tuning = TUNING,
) -> Wanted:
    """Choose both counts for the forecast, plus the replicas that are held against bursts."""
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
        # Replicas bought because of violations stay until their effect is visible.
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
        attainment=spec.slo.attainment,
        idle=idle,
        tuning=tuning,
    )
    pauses = _pauses(spec, known, memory, tuning=tuning)
    return Wanted(
        spec=spec,
        plan=plan,
        replan=replan,
        promise=promise,
        floors=floors,
        urgent=urgent,
        idle=idle,
        rest=Rest()
        if pauses is None
        else memory.rest.look(
            spec,
            reports=routers,
            arrivals=arrivals,
            fresh=seen.fresh,
            fleets=seen.fleets,
            pods=seen.observation.pods,
            pauses=pauses,
            called=bool(called.periods),
            now_s=seen.now_s,
            tuning=tuning,
        ),
        pauses=pauses,
        called=called,
    )


def _pauses(
    spec: PoolSpec, known: Assessment, memory: Memory, *, tuning: Tuning = TUNING
) -> Pauses | None:
    """Return how long to hold the pool awake; a late request has its usual price."""
    if spec.sleep_after_s is None:
        return None
    seen, situation = known.seen, known.sized.situation
    late_gpu_s = 0.0
    if situation is not None:
        price = known.sized.correction.price / max(1e-3, 1.0 - spec.slo.attainment)
        late_gpu_s = price * sum(
            situation.busy[role] * spec.roles[role].gpus_per_replica for role in Role
        )
    return memory.rest.pauses(spec, lead_s=seen.lead_s, late_gpu_s=late_gpu_s, tuning=tuning)


@dataclass(frozen=True, slots=True)
class Granted:
    """The part of the plan inside the namespace's quota; `share` is `None` without a quota."""

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
    """Take the pool's share of a quota, by its highest recent need."""
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
    share = take_share(
        spec,
        quota,
        seen.fleets,
        curve=curve,
        keep_all=keep_all,
        asleep=wanted.rest.asleep,
        tuning=tuning,
    )
    spec = share.limit(spec)
    if plan is not None and plan.gpus(spec) > share.gpus:
        # The replays for the first choice are kept.
        plan = wanted.replan(spec, floors=wanted.promise.floors(wanted.floors))
    return Granted(spec=spec, plan=plan, share=share, crest=crest)


def _curve(wanted: Wanted, known: Assessment, *, tuning: Tuning = TUNING) -> Curve:
    """Return the good requests that more GPUs would give, up to the plan."""
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
    """The counts to set now, and the memory of desired counts."""

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
    """Confirm growth, delay shrinking, and keep a pod while its node is drained."""
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
    relief = replace(
        relief,
        allowed=rested(
            spec,
            fleets,
            relief.allowed,
            asleep=wanted.rest.asleep,
            target=_to_wake(target or {}, known, spec.classes) if spec.may_sleep else {},
        ),
        roles=() if wanted.rest.asleep else relief.roles,
        blocked=() if wanted.rest.asleep else relief.blocked,
    )
    return Done(relief=relief, past=past if seen.arrivals.complete else _unwatched(past))


def _to_wake(
    target: Mapping[Role, int], known: Assessment, classes: Sequence[SloClass]
) -> Mapping[Role, int]:
    """Return the counts that a pool at zero wakes: for the forecast, and for waiting requests.

    The waiting requests already waited for a start, and should not wait as long again.
    """
    waiting = waiting_replicas(
        known.seen.observation.routers,
        known.sized.situation,
        classes=classes,
        clear_s=known.seen.lead_s,
    )
    return {role: max(target.get(role, 1), waiting[role]) for role in Role}


def tell(
    wanted: Wanted, granted: Granted, done: Done, known: Assessment, *, tuning: Tuning = TUNING
) -> Decision:
    """Return the decision in words and numbers."""
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
            classes=by_class(granted.spec.classes, seen.observation.routers),
            tenants=by_tenant(granted.spec.tenants, seen.observation.routers),
            latency=seen.observation.latency,
            # Two seconds of history give no rate, just as they give no forecast.
            rate_rps=None if ahead.expected is None else sized.rate_rps,
            overhead_s=sized.overhead_s,
            idle=wanted.idle,
            share=granted.share,
            pace=sized.pace,
            budget=wanted.promise.budget.left(
                wanted.spec.slo.attainment, now_s=seen.now_s, tuning=tuning
            ),
            kept_on_nodes=done.relief.blocked,
            rest=wanted.rest,
            pauses=wanted.pauses,
            called=wanted.called,
            lead_s=ahead.lead_s,
        )
    )


def _unwatched(past: Mapping[Role, Past]) -> dict[Role, Past]:
    """Return the past without confirmed shrinks, because a part of the load was not seen."""
    return {role: replace(each, keeps=Wants()) for role, each in past.items()}


def _is_idle(spec: PoolSpec, seen: Observed, *, tuning: Tuning = TUNING) -> bool:
    """Return whether it is confirmed that no request came and none is in the pool."""
    window_s = int(max(tuning.guard.idle_s, spec.stabilization_s))
    if not seen.fresh.shrink or seen.arrivals.known_s < max(window_s, tuning.sizing.seen_s):
        return False
    routers = seen.observation.routers
    inside = sum(r.queued_requests + r.prefill_requests + r.decode_requests for r in routers)
    return inside == 0 and not any(seen.arrivals.counts[-window_s:])
