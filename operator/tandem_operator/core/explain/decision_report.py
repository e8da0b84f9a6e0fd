"""Build a `Decision` from the result of a tick: reasons, sentences, and the numbers behind them."""

from tandem_operator.core.decision import Attainment, Decision, Reason, RoleDecision
from tandem_operator.core.explain.predictions import (
    alternatives,
    capacity_rps,
    out_of_reach,
    outlook,
    utilization,
)
from tandem_operator.core.explain.sentences import (
    RestWords,
    ScheduleWords,
    Words,
    cause,
    sentence,
)
from tandem_operator.core.explain.tick_result import View, rounded
from tandem_operator.core.guard.allowed import Allowed
from tandem_operator.core.observation import PodPhase, Quantiles
from tandem_operator.core.observe.role_pods import RolePods
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.demand import Situation
from tandem_operator.core.spec import Mode

LEAST_SHOWN_RPS = 0.005
QUOTA_LIMIT = "namespace quota"


def report(view: View) -> Decision:
    """Return the decision for the parts that execute and show it."""
    roles = {role: _role_decision(view, role) for role in Role}
    changed = [d.sentence for d in roles.values() if d.to != d.current]
    situation, latency = view.situation, view.latency
    feasible = None if situation is None else situation.feasible
    recent = view.recent
    return Decision(
        at_s=view.now_s,
        roles=roles,
        sentence="; ".join(changed or [d.sentence for d in roles.values()]),
        fresh=view.fresh.act,
        fresh_message=view.fresh.message,
        capacity_blocked=_blocked(view),
        drain_blocked=_drain_blocked(view),
        slo_feasible=feasible,
        feasible_ttft_s=None if situation is None else _feasible_ttft_s(view, situation),
        feasible_tpot_s=None
        if situation is None or situation.decode.feasible
        else rounded(situation.decode.feasible_tpot_s),
        recent=Attainment(
            window_s=recent.window_s,
            attainment=recent.attainment,
            goodput_rps=recent.good / recent.window_s if recent.finished else None,
            output_tokens_per_s=recent.output_tokens / recent.window_s if recent.finished else None,
            ttft=latency.ttft if latency is not None else Quantiles(),
            tpot=latency.tpot if latency is not None else Quantiles(),
            blame=recent.blame,
            classes=view.classes,
            tenants=view.tenants,
        ),
        inputs=_inputs(view),
        next_tick_s=view.next_tick_s,
        share=view.share,
        pace=view.pace,
        budget=view.budget,
        rest=view.rest,
        called=view.called,
        wake_s=_wake_s(view),
    )


def _wake_s(view: View) -> float | None:
    """Return how long to hold a request at a sleeping pool; `None`: holding would be in vain."""
    if not view.spec.may_sleep or view.spec.mode is not Mode.AUTO:
        return None
    return rounded(view.lead_s, 2)


def _room(view: View, role: Role) -> float | None:
    if view.plan is None:
        return None
    choice, keep = (each.target[role] for each in (view.plan.choice, view.plan.keep))
    return view.plan.room if choice < view.allowed[role].current <= keep else None


def _feasible_ttft_s(view: View, situation: Situation) -> float | None:
    work = situation.replay.work
    return None if work.feasible else rounded(work.feasible_ttft_s)


def _role_decision(view: View, role: Role) -> RoleDecision:
    allowed, bounds = view.allowed[role], view.spec.roles[role]
    seen = outlook(view, role)
    words = Words(
        role=role,
        outlook=seen,
        stabilization_s=view.spec.stabilization_s,
        budget=view.spec.budget_words,
        fresh_message=view.fresh.message,
        stuck=_stuck_sentence(view.fleets[role]),
        minimum=bounds.min_replicas,
        maximum=bounds.max_replicas,
        idle=view.idle,
        learning=view.situation is None or view.forecast is None,
        wanted=allowed.to if view.choice is None else view.choice.wanted[role],
        pending=view.choice is not None and view.choice.target[role] > allowed.to,
        room=_room(view, role),
        stands_in=_stands_in(view, role),
        out_of_reach=out_of_reach(view, role),
        bursts=None if view.plan is None else view.plan.held_for.get(role),
        quota=view.share.words if view.share is not None and view.share.binds else None,
        rest=_rest_words(view),
        schedule=_schedule_words(view, role),
        start_s=_start_s(view),
    )
    reason = allowed.reason if allowed.reason is not None else cause(words)
    if reason is Reason.AT_BOUND and words.schedule is not None and allowed.to > allowed.current:
        reason = Reason.SCHEDULE
    if words.bursts is not None and allowed.reason in (None, Reason.STEADY):
        reason = Reason.RECURRING_BURSTS
    if reason is Reason.STEADY and _held_by_schedule(words, allowed):
        reason = Reason.SCHEDULE
    if reason is Reason.STEADY and _held_awake(view):
        reason = Reason.FREQUENT_WAKES
    if reason is Reason.GPU_BUDGET and view.bound_by_quota:
        reason = Reason.NAMESPACE_QUOTA
    text = sentence(words, allowed, reason)
    if not bounds.managed:
        owner = f"{role.value} has another owner"
        reason, text = Reason.NOT_MANAGED, f"{owner}; Tandem recommends: {text}"
    elif view.spec.mode is Mode.PAUSED:
        reason, text = Reason.PAUSED, f"Scaling is paused; Tandem recommends: {text}"
    elif view.spec.mode is Mode.RECOMMEND and allowed.to != allowed.current:
        text = f"Tandem only recommends: {text}"
    ready = len(view.fleets[role].ready)
    return RoleDecision(
        role=role,
        current=allowed.current,
        to=allowed.to,
        wanted=words.wanted,
        reason=reason,
        sentence=text,
        capacity_rps=capacity_rps(view, role, ready),
        utilization=utilization(view, role, ready),
        limits_hit=_limits(view, allowed, ordered=reason is Reason.SCHEDULE),
        alternatives=alternatives(view, role, allowed),
    )


def _rest_words(view: View) -> RestWords | None:
    if view.pauses is None:
        return None
    wake = view.rest.wake
    return RestWords(
        waiting=1 if wake is None else wake.waited,
        pauses=view.pauses,
        called=view.rest.called_s is not None,
    )


def _schedule_words(view: View, role: Role) -> ScheduleWords | None:
    """Return what schedules hold of the role; `None` where its own minimum is as high."""
    period = view.called.holding(role, now_s=view.now_s)
    if period is None or not view.spec.roles[role].managed:
        return None
    floor = view.called.floors[role]
    keeps_awake = view.spec.may_sleep and (view.idle or view.rest.called_s is not None)
    if not keeps_awake and role not in view.called.raises:
        return None
    return ScheduleWords(period=period, floor=floor, begun=period.start_s <= view.now_s)


def _held_by_schedule(words: Words, allowed: Allowed) -> bool:
    """Return whether it stays at what a schedule holds; more would be wanted by the load alone."""
    held = words.schedule is not None and allowed.to == allowed.current == words.schedule.floor
    return held and not words.pending


def _start_s(view: View) -> float | None:
    """Return how long both roles take to start; `None` while not measured."""
    measured = [view.starts.quantile_s(role, 0.9) for role in Role]
    return max((each for each in measured if each is not None), default=None)


def _held_awake(view: View) -> bool:
    """Return whether the pool would sleep by now if its recent pauses had been longer."""
    pauses, busy_s, after_s = view.pauses, view.rest.busy_s, view.spec.sleep_after_s
    if pauses is None or busy_s is None or after_s is None or not view.spec.may_sleep:
        return False
    return pauses.held_longer(view.spec) and after_s <= view.now_s - busy_s < pauses.hold_s


def _stands_in(view: View, role: Role) -> bool:
    """Return whether it grows only for sick pods: for its load it has enough."""
    allowed = view.allowed[role]
    enough = view.choice is not None and view.choice.target[role] <= allowed.current
    return enough and allowed.to > allowed.current and bool(view.fleets[role].sick)


def _limits(view: View, allowed: Allowed, *, ordered: bool) -> tuple[str, ...]:
    """Return the limits that a count met; what a schedule orders is not one of `minReplicas`."""
    met = (each for each in allowed.limits_hit if not (ordered and each == "minReplicas"))
    if not view.bound_by_quota:
        return tuple(met)
    return tuple(QUOTA_LIMIT if each == "gpuBudget" else each for each in met)


def _stuck_sentence(fleet: RolePods) -> str | None:
    found = [_trouble_sentence(fleet), _gated_sentence(fleet)]
    return "; ".join(filter(None, found)) or None


def _trouble_sentence(fleet: RolePods) -> str | None:
    stuck = [pod for pod in fleet.stuck if not pod.gates]
    if not stuck:
        return None
    pod = min(stuck, key=lambda p: (p.problem is None, p.created_s, p.name))
    state = "is not scheduled" if pod.phase is PodPhase.UNSCHEDULED else "does not become Ready"
    problem = pod.problem or f"it {state}"
    others = f" (and {len(stuck) - 1} more)" if len(stuck) > 1 else ""
    return f"pod {pod.name}{others}: {problem}"


def _gated_sentence(fleet: RolePods) -> str | None:
    gated = fleet.gated
    if not gated:
        return None
    gates = sorted({gate for pod in gated for gate in pod.gates})
    count = len(gated)
    pods = f"{count} {fleet.role.value} pod{' is' if count == 1 else 's are'}"
    return f"{pods} held by scheduling gate{'s' * (len(gates) > 1)} {' and '.join(gates)}"


def _blocked(view: View) -> str | None:
    stuck = [s for role in Role if (s := _stuck_sentence(view.fleets[role])) is not None]
    if view.share is not None and view.share.waiting:
        stuck.append(f"minReplicas needs {view.share.waiting} GPUs; {view.share.words}")
    return "; ".join(stuck) or None


def _drain_blocked(view: View) -> str | None:
    if not view.kept_on_nodes:
        return None
    pods = [view.fleets[role].ready[0].name for role in view.kept_on_nodes]
    budget = "the namespace quota" if view.bound_by_quota else view.spec.budget_words
    gpus = max(view.spec.roles[role].gpus_per_replica for role in view.kept_on_nodes)
    return (
        f"The node of {' and '.join(pods)} is being drained, but {budget} has no room for another"
        f" pod; raise it by {gpus}, or delete the pod"
    )


def _inputs(view: View) -> dict[str, float]:
    """Return the numbers behind the decision, rounded for people; unknown ones are absent."""
    found: dict[str, float | None] = {"arrivals_rps": view.rate_rps}
    for role in Role:
        found[f"cold_start_{role.value}_s"] = view.starts.quantile_s(role, 0.9)
        found[f"correction_{role.value}"] = view.correction.of(role)
    found["late_price"] = view.correction.price
    found["ttft_overhead_s"] = view.overhead_s
    if view.share is not None:
        found["quota_share_gpus"] = float(view.share.gpus)
        for role in Role:
            found[f"wanted_{role.value}"] = (
                None if view.choice is None else float(view.choice.wanted[role])
            )
    if view.forecast is not None:
        peak = view.forecast.peak
        found["forecast_rps"] = peak.mean_rps if peak.mean_rps >= LEAST_SHOWN_RPS else 0.0
        # Below one request in some minutes, a rate is only remembered noise.
        highest_rps = max(peak.samples_rps)
        found["forecast_high_rps"] = highest_rps if highest_rps >= LEAST_SHOWN_RPS else 0.0
        found["forecast_room"] = view.forecast.room
        found["forecast_horizon_s"] = view.forecast.levels[-1].horizon_s
    if view.situation is not None:
        situation = view.situation
        found["prompt_tokens"] = situation.sample.mean_prompt_tokens
        found["output_tokens"] = situation.decode.outputs.mean_tokens
        found["arrival_dispersion"] = situation.sample.dispersion
        found["prefill_service_s"] = situation.replay.work.mean_service_s
        prefill, decode = situation.models.service.line, situation.models.step.line
        found["prefill_model_error_ratio"] = prefill.error_ratio if prefill.measured else None
        found["decode_model_error_ratio"] = decode.error_ratio if decode.measured else None
        found["decode_batch"] = situation.decode.batch
        found["decode_tokens_per_s"] = situation.decode.tokens_per_s
        found["infeasible_share"] = situation.replay.work.infeasible_share
        found["kv_capacity_tokens"] = situation.models.kv_capacity_tokens
    return {name: rounded(value) for name, value in found.items() if value is not None}
