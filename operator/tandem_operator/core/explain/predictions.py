"""Predictions at the deciding load: for the old count, the new count, and its neighbours."""

from tandem_operator.core.explain.sentences import LatencyOutlook, percent, seconds
from tandem_operator.core.explain.tick_result import View, rounded
from tandem_operator.core.forecast.distribution import Forecast
from tandem_operator.core.guard.allowed import Allowed
from tandem_operator.core.learn.correction import blamed
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_lateness import Limit
from tandem_operator.core.sizing.demand import Situation

PERCENTILE = 0.95
CAPACITY_STEPS = 6
LEAST_TOLD_ROOM = 1.05


def outlook(view: View, role: Role) -> LatencyOutlook | None:
    """Return the predicted latency of the present and the new count at the deciding load."""
    situation, forecast, allowed = view.situation, view.forecast, view.allowed[role]
    if situation is None or forecast is None:
        return None
    bound_s = _bound_s(view, situation, role)
    if allowed.to <= allowed.current:
        return LatencyOutlook(_quantity(role), bound_s, None, None, None, 0.0, "")
    current = max(1, allowed.current)
    peak = forecast.peak
    rate_rps, before_s = peak.mean_rps, _predicted_s(situation, role, peak.mean_rps, current)
    words = "at most" if before_s is not None and before_s <= bound_s else ""
    if words:
        rate_rps = max(peak.samples_rps)
        before_s = _predicted_s(situation, role, rate_rps, current)
    return LatencyOutlook(
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


def out_of_reach(view: View, role: Role) -> str | None:
    """Return in words the bound that no number of replicas of `role` keeps; `None` if some can."""
    situation = view.situation
    if situation is None or situation.reachable(role):
        return None
    latency = _quantity(role).split()[0]
    bound = seconds(_bound_s(view, situation, role))
    wanted = f"{100.0 * view.spec.slo.attainment:g} % of requests"
    return f"no number of replicas can keep {latency} within {bound} for {wanted}"


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
    room = ""
    if forecast.room >= LEAST_TOLD_ROOM:
        room = f"; the rate is {forecast.room:.1f} times the forecast, since the traffic is new"
    horizon_s = forecast.levels[-1].horizon_s
    if role is Role.PREFILL:
        tokens = f"of {rounded(situation.sample.mean_prompt_tokens, 2):.0f} prompt tokens"
    else:
        tokens = f"of {rounded(situation.decode.outputs.mean_tokens, 2):.0f} output tokens"
    return f"{rate} {tokens} over the next {horizon_s:.0f} s{room}"


def _observed_s(view: View, role: Role, bound_s: float) -> float | None:
    """Return the recent p95, if it broke the bound and this role is to blame."""
    latency, minute = view.latency, view.minute
    if latency is None or minute.finished == 0:
        return None
    p95_s = (latency.ttft if role is Role.PREFILL else latency.tpot).p95_s
    share = blamed(minute, role) / minute.finished
    if p95_s is None or p95_s <= bound_s or share <= 1.0 - view.spec.slo.attainment:
        return None
    return p95_s


def capacity_rps(view: View, role: Role, ready: int) -> float | None:
    """Return the requests per second that the Ready replicas serve inside the SLO."""
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


def utilization(view: View, role: Role, ready: int) -> float | None:
    """Return the share of the Ready replicas' time that the present rate uses."""
    if view.situation is None or view.rate_rps is None or ready == 0:
        return None
    return rounded(view.rate_rps * view.situation.demands[role].busy / ready, 2)


def alternatives(view: View, role: Role, allowed: Allowed) -> tuple[str, ...]:
    """Return the late requests at neighbouring counts, if the count changes."""
    if view.situation is None or view.forecast is None or allowed.to == allowed.current:
        return ()
    situation, rate_rps = view.situation, view.forecast.peak.mean_rps

    def late(count: int) -> str:
        return percent(situation.late_share(role, rate_rps, count))

    texts, taken = [], late(allowed.to)
    for count in sorted({allowed.current, allowed.to - 1, allowed.to + 1} - {allowed.to}):
        if count >= 1:
            other = late(count)
            than = "the same as" if other == taken else f"against {taken}"
            late_by = f"{other} of requests late because of {role.value}"
            texts.append(f"{count} {role.value}: {late_by}, {than} with {allowed.to}")
    return tuple(texts)
