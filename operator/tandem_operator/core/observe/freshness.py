"""Check an observation before its use: drop impossible samples, and find which data are fresh.

Growing needs fresh data of most pods; shrinking needs fresh data of all pods.
"""

from dataclasses import dataclass, fields, replace
from math import isfinite

from tandem_operator.core.observation import (
    EngineSample,
    Observation,
    PodPhase,
    RouterReport,
)
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class Freshness:
    """The actions that the present data allow.

    Attributes:
        act: enough is fresh to grow.
        shrink: everything is fresh.
        message: the missing data, in one sentence; if none is missing, the source.
    """

    act: bool
    shrink: bool
    message: str


def usable(observation: Observation, now_s: float, *, tuning: Tuning = TUNING) -> Observation:
    """Return the observation without samples that are stale, from the future or not numbers."""
    return replace(
        observation,
        pods=tuple(pod for pod in observation.pods if _numbers_valid(pod)),
        engines=tuple(s for s in observation.engines if _engine_usable(s, now_s, tuning=tuning)),
        routers=tuple(r for r in observation.routers if _router_usable(r, now_s, tuning=tuning)),
        latency=observation.latency
        if observation.latency is not None
        and _recent(observation.latency.sampled_s, now_s, tuning=tuning)
        else None,
    )


def freshness(observation: Observation, now_s: float, *, tuning: Tuning = TUNING) -> Freshness:
    """Return how much of the pool a *usable* observation covers."""
    routers = sum(not report.ended for report in observation.routers)
    expected, fresh = max(1, observation.router_pods), "Tandem has fresh metrics from"
    sampled = {sample.pod for sample in observation.engines}
    ready = [pod for pod in observation.pods if pod.phase is PodPhase.READY]
    # A pod that just became Ready may be younger than the last scrape.
    settled = [
        pod
        for pod in ready
        if pod.name in sampled
        or pod.ready_s is None
        or now_s - pod.ready_s > tuning.observe.new_pod_s
    ]
    missing = sorted(pod.name for pod in settled if pod.name not in sampled)
    if routers == 0:
        message = f"{fresh} 0 of {expected} routers"
        if observation.router_pods == 0:
            message = "no router is running"
        return Freshness(act=False, shrink=False, message=message)
    covered = len(settled) - len(missing)
    if covered < tuning.observe.fresh_pod_share * len(settled):
        message = (
            f"{fresh}{' only' if covered else ''} {covered} of {len(settled)} Ready engine pods"
        )
        return Freshness(act=False, shrink=False, message=message)
    gap = None
    lost = [r.router for r in observation.routers if r.lost_lately(now_s, tuning=tuning)]
    if routers < expected:
        gap = f"{fresh} only {routers} of {expected} routers"
    elif observation.turned_away:
        gap = "no router is Ready, so clients get no answer"
    elif lost:
        gap = f"router {lost[0]} ended, and the requests of its last seconds are unknown"
    elif missing:
        gap = f"Tandem has no fresh metrics from {', '.join(missing[:3])}"
    whole = f"{fresh} routers and Ready engine pods"
    return Freshness(act=True, shrink=gap is None, message=gap or whole)


def _recent(sampled_s: float, now_s: float, *, tuning: Tuning = TUNING) -> bool:
    return now_s - tuning.observe.fresh_s <= sampled_s <= now_s + tuning.observe.clock_skew_s


def _engine_usable(sample: EngineSample, now_s: float, *, tuning: Tuning = TUNING) -> bool:
    return _numbers_valid(sample) and _recent(sample.sampled_s, now_s, tuning=tuning)


def _router_usable(report: RouterReport, now_s: float, *, tuning: Tuning = TUNING) -> bool:
    return (
        _numbers_valid(report)
        and _recent(report.sampled_s, now_s, tuning=tuning)
        and all(_numbers_valid(leg) for leg in report.legs)
    )


def _numbers_valid(record: object) -> bool:
    """Return whether all numbers of a flat record are finite and none is negative."""
    values = (getattr(record, each.name) for each in fields(record))  # type: ignore[arg-type]
    return all(isfinite(value) and value >= 0 for value in values if isinstance(value, int | float))
