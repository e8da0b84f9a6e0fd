"""Write a tick's result down as a `Decision`: reasons, sentences, and the numbers behind them."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, log10

from tandem_operator.core.arrivals import Outcomes
from tandem_operator.core.choose import Choice
from tandem_operator.core.correct import Correction, blamed
from tandem_operator.core.decision import Attainment, Decision, Reason, RoleDecision
from tandem_operator.core.decode import Limit
from tandem_operator.core.explain import Outlook, Words, cause, sentence
from tandem_operator.core.fleet import Fleet, Starts
from tandem_operator.core.guard import Allowed
from tandem_operator.core.intake import Freshness
from tandem_operator.core.observation import Latency, PodPhase, Quantiles
from tandem_operator.core.pace import DecodePace
from tandem_operator.core.plan import Plan
from tandem_operator.core.rates import Forecast
from tandem_operator.core.role import Role
from tandem_operator.core.share import Share
from tandem_operator.core.situation import Situation
from tandem_operator.core.spec import Mode, PoolSpec

PERCENTILE = 0.95
CAPACITY_STEPS = 6
LEAST_SHOWN_RPS = 0.005
LEAST_TOLD_ROOM = 1.05
QUOTA_LIMIT = "namespace quota"


@dataclass(frozen=True, slots=True)
class View:
    """Everything one tick found out."""

    spec: PoolSpec
    now_s: float
    next_tick_s: float
    fresh: Freshness
    fleets: Mapping[Role, Fleet]
    starts: Starts
    allowed: Mapping[Role, Allowed]
    plan: Plan | None
    forecast: Forecast | None
    situation: Situation | None
    correction: Correction
    minute: Outcomes
    recent: Outcomes
    latency: Latency | None
    rate_rps: float | None
    overhead_s: float | None
    idle: bool
    share: Share | None = None
    pace: DecodePace | None = None

    @property
    def choice(self) -> Choice | None:
        """What is wanted, where that is known."""
        return None if self.plan is None else self.plan.choice

    @property
    def bound_by_quota(self) -> bool:
        """Whether the budget in force is the pool's share of its namespace's quota."""
        return self.share is not None and self.share.binds


def report(view: View) -> Decision:
    """The decision that the edges carry out and show."""
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
        slo_feasible=feasible,
        feasible_ttft_s=None if situation is None else _feasible_ttft_s(view, situation),
        feasible_tpot_s=None
        if situation is None or situation.decode.feasible
        else rounded(situation.decode.feasible_tpot_s),
        recent=Attainment(
            window_s=recent.window_s,
            attainment=recent.attainment,
            goodput_rps=recent.good / recent.window_s if recent.finished else None,
            ttft=latency.ttft if latency is not None else Quantiles(),
            tpot=latency.tpot if latency is not None else Quantiles(),
            blame=recent.blame,
        ),
        inputs=_inputs(view),
        next_tick_s=view.next_tick_s,
        share=view.share,
        pace=view.pace,
    )


def _room(view: View, role: Role) -> float | None:
    if view.plan is None:
        return None
    choice, keep = (each.target[role] for each in (view.plan.choice, view.plan.keep))
    return view.plan.room if choice < view.allowed[role].current <= keep else None


def _feasible_ttft_s(view: View, situation: Situation) -> float | None:
    work = situation.replay.work
    return None if work.feasible else rounded(work.feasible_ttft_s)


def rounded(value: float, digits: int = 3) -> float:
    """`value` with `digits` significant digits, for people."""
    if value == 0.0:
        return 0.0
    return round(value, digits - 1 - floor(log10(abs(value))))


def _role_decision(view: View, role: Role) -> RoleDecision:
    allowed, bounds = view.allowed[role], view.spec.roles[role]
    outlook = _outlook(view, role)
    words = Words(
        role=role,
        outlook=outlook,
        stabilization_s=view.spec.stabilization_s,
        gpu_budget=view.spec.gpu_budget,
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
        quota=view.share.words if view.share is not None and view.share.binds else None,
    )
    reason = allowed.reason if allowed.reason is not None else cause(words)
    if reason is Reason.GPU_BUDGET and view.bound_by_quota:
        reason = Reason.NAMESPACE_QUOTA
    text = sentence(words, allowed, reason)
    if not bounds.managed:
        reason, text = Reason.NOT_MANAGED, f"{role.value} is set by another owner; Tandem: {text}"
    elif view.spec.mode is Mode.PAUSED:
        reason, text = Reason.PAUSED, f"scaling is paused; Tandem: {text}"
    elif view.spec.mode is Mode.RECOMMEND and allowed.to != allowed.current:
        text = f"recommended only: {text}"
    ready = len(view.fleets[role].ready)
    return RoleDecision(
        role=role,
        current=allowed.current,
        to=allowed.to,
        wanted=words.wanted,
        reason=reason,
        sentence=text,
        capacity_rps=_capacity_rps(view, role, ready),
        utilization=_utilization(view, role, ready),
        limits_hit=_limits(view, allowed),
        alternatives=_alternatives(view, role, allowed),
    )


def _stands_in(view: View, role: Role) -> bool:
    """Whether it grows for sick pods alone: for its load it has enough."""
    allowed = view.allowed[role]
    enough = view.choice is not None and view.choice.target[role] <= allowed.current
    return enough and allowed.to > allowed.current and bool(view.fleets[role].sick)


def _limits(view: View, allowed: Allowed) -> tuple[str, ...]:
    if not view.bound_by_quota:
        return allowed.limits_hit
    return tuple(QUOTA_LIMIT if each == "gpuBudget" else each for each in allowed.limits_hit)


def _outlook(view: View, role: Role) -> Outlook | None:
    """What the present and the new count would give at the load that decides."""
    situation, forecast, allowed = view.situation, view.forecast, view.allowed[role]
    if situation is None or forecast is None:
        return None
    bound_s = _bound_s(view, situation, role)
    if allowed.to <= allowed.current:
        return Outlook(_quantity(role), bound_s, None, None, None, 0.0, "")
    current = max(1, allowed.current)
    peak = forecast.peak
    rate_rps, before_s = peak.mean_rps, _predicted_s(situation, role, peak.mean_rps, current)
    words = "at most" if before_s is not None and before_s <= bound_s else ""
    if words:
        rate_rps = max(peak.samples_rps)
        before_s = _predicted_s(situation, role, rate_rps, current)
    return Outlook(
        quantity=_quantity(role),
        bound_s=bound_s,
        observed_s=_observed_s(view, role, bound_s),
        before_s=before_s,
        after_s=_predicted_s(situation, role, rate_rps, allowed.to),
        late_share=situation.late_share(role, rate_rps, current),
        load=_load(view, situation, role, rate_rps, forecast, up_to=bool(words)),
        batch_limit=_batch_limit(situation, role),
        kv_bound=role is Role.DECODE and situation.decode.limit is Limit.KV,
    )


def _batch_limit(situation: Situation, role: Role) -> str | None:
    if role is Role.PREFILL or situation.decode.limit is Limit.TPOT:
        return None
    return f"{situation.decode.limit.value} ({situation.decode.batch:.0f} streams)"


def _quantity(role: Role) -> str:
    return "TTFT p95" if role is Role.PREFILL else "TPOT"


def _bound_s(view: View, situation: Situation, role: Role) -> float:
    slo = view.spec.slo
    if role is Role.PREFILL:
        return slo.ttft_bound_s(rounded(situation.sample.mean_prompt_tokens, 1))
    return slo.tpot_s


def _predicted_s(situation: Situation, role: Role, rate_rps: float, replicas: int) -> float | None:
    if role is Role.DECODE:
        return situation.decode.tpot_s(rate_rps, replicas)
    if situation.replay.work.load(rate_rps) >= replicas:
        return None
    return situation.replay.ttft_quantile_s(rate_rps, replicas, PERCENTILE)


def _load(
    view: View,
    situation: Situation,
    role: Role,
    rate_rps: float,
    forecast: Forecast,
    *,
    up_to: bool,
) -> str:
    rate = f"{'up to ' if up_to else ''}{rounded(rate_rps, 2):g} requests/s"
    if forecast.room >= LEAST_TOLD_ROOM:
        rate += f" ({forecast.room:.1f} times the forecast while its traffic is new)"
    horizon_s = forecast.levels[-1].horizon_s
    if role is Role.PREFILL:
        tokens = f"of {rounded(situation.sample.mean_prompt_tokens, 2):.0f} prompt tokens"
    else:
        tokens = f"of {rounded(situation.decode.outputs.mean_tokens, 2):.0f} output tokens"
    return f"{rate} {tokens} over the next {horizon_s:.0f} s"


def _observed_s(view: View, role: Role, bound_s: float) -> float | None:
    """The p95 measured lately, where it broke the bound and this role is to blame."""
    latency, minute = view.latency, view.minute
    if latency is None or minute.finished == 0:
        return None
    p95_s = (latency.ttft if role is Role.PREFILL else latency.tpot).p95_s
    share = blamed(minute, role) / minute.finished
    if p95_s is None or p95_s <= bound_s or share <= 1.0 - view.spec.slo.attainment:
        return None
    return p95_s


def _capacity_rps(view: View, role: Role, ready: int) -> float | None:
    """Requests per second that the ready replicas serve inside the SLO."""
    situation = view.situation
    if situation is None or ready == 0:
        return None
    busy = situation.demands[role].busy
    if busy <= 0.0:
        return None
    low, high = 0.0, ready / busy
    allowed = 0.5 * (1.0 - view.spec.slo.attainment)
    for _ in range(CAPACITY_STEPS):
        middle = 0.5 * (low + high)
        if situation.late_share(role, middle, ready) <= allowed:
            low = middle
        else:
            high = middle
    return rounded(low, 2)


def _utilization(view: View, role: Role, ready: int) -> float | None:
    if view.situation is None or view.rate_rps is None or ready == 0:
        return None
    return rounded(view.rate_rps * view.situation.demands[role].busy / ready, 2)


def _alternatives(view: View, role: Role, allowed: Allowed) -> tuple[str, ...]:
    """What the neighbouring counts would cost in late requests, where something changes."""
    if view.situation is None or view.forecast is None or allowed.to == allowed.current:
        return ()
    situation, rate_rps = view.situation, view.forecast.peak.mean_rps

    def late(count: int) -> str:
        return f"{100.0 * situation.late_share(role, rate_rps, count):.2g} %"

    texts = []
    for count in sorted({allowed.current, allowed.to - 1, allowed.to + 1} - {allowed.to}):
        if count >= 1:
            instead = f"as with {allowed.to}"
            if late(count) != late(allowed.to):
                instead = f"against {late(allowed.to)} with {allowed.to}"
            texts.append(f"{count} {role.value}: {late(count)} late for {role.value}, {instead}")
    return tuple(texts)


def _stuck_sentence(fleet: Fleet) -> str | None:
    if not fleet.stuck:
        return None
    pod = min(fleet.stuck, key=lambda p: (p.problem is None, p.created_s, p.name))
    state = "is not scheduled" if pod.phase is PodPhase.UNSCHEDULED else "does not become ready"
    problem = pod.problem or state
    others = f" (and {len(fleet.stuck) - 1} more)" if len(fleet.stuck) > 1 else ""
    return f"pod {pod.name}{others}: {problem}"


def _blocked(view: View) -> str | None:
    stuck = [s for role in Role if (s := _stuck_sentence(view.fleets[role])) is not None]
    if view.share is not None and view.share.waiting:
        stuck.append(f"minReplicas needs {view.share.waiting} GPUs, but {view.share.words}")
    return "; ".join(stuck) or None


def _inputs(view: View) -> dict[str, float]:
    """The numbers behind the decision, rounded for people; what is unknown is absent."""
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
        # Below one request in minutes a rate is only the memory of noise.
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
