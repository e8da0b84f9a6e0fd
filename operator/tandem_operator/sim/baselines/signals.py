"""The signals of a role in a metrics pipeline: the numbers that threshold autoscalers act on."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tandem_operator.core.observation import Observation, PodPhase, RouterReport
from tandem_operator.core.role import Role


class Signal(StrEnum):
    """The measured quantity. All but `LATENCY` are totals of a role, divided by its replicas."""

    QUEUE = "queue"
    """Requests that wait, in the router or in the engines."""
    CONCURRENCY = "concurrency"
    """Requests that wait or run."""
    TOKENS = "tokens"
    """Tokens of requests that wait or run."""
    LATENCY = "latency"
    """TTFT p95 for prefill, TPOT p95 for decode, in seconds."""


@dataclass(frozen=True, slots=True)
class PodCounts:
    """The pods of a role, as a Deployment's status counts them.

    Attributes:
        silent: pods of `ready` whose metrics are missing.
    """

    asked: int
    ready: int
    starting: int
    unscheduled: int
    silent: int

    @property
    def existing(self) -> int:
        """Return the pods that are not leaving."""
        return self.ready + self.starting + self.unscheduled


def fleet_of(observation: Observation, role: Role) -> PodCounts:
    """Return the role's pods by phase."""
    phases = [pod.phase for pod in observation.pods if pod.role is role]
    ready = {p.name for p in observation.pods if p.role is role and p.phase is PodPhase.READY}
    return PodCounts(
        asked=observation.replicas[role],
        ready=len(ready),
        starting=phases.count(PodPhase.STARTING),
        unscheduled=phases.count(PodPhase.UNSCHEDULED),
        silent=len(ready - {sample.pod for sample in observation.engines}),
    )


def reading(observation: Observation, role: Role, signal: Signal) -> float | None:
    """Return the present signal; `None` if it is not available."""
    if signal is Signal.LATENCY:
        latency = observation.latency
        if latency is None:
            return None
        return latency.ttft.p95_s if role is Role.PREFILL else latency.tpot.p95_s
    fleet = fleet_of(observation, role)
    if not observation.routers or 0 < fleet.ready == fleet.silent:
        return None
    total = _in_router(observation.routers, role)[signal]
    for sample in observation.engines:
        if sample.role is role:
            match signal:
                case Signal.QUEUE:
                    total += sample.waiting
                case Signal.CONCURRENCY:
                    total += sample.waiting + sample.running
                case Signal.TOKENS:
                    held = (sample.kv_usage_ratio or 0.0) * (sample.kv_capacity_tokens or 0.0)
                    total += held
    return total


def queued_tokens(routers: tuple[RouterReport, ...], role: Role) -> int:
    """Return prompt tokens that wait in routers for a role: for decode if it holds them back."""
    held = sum(report.held_prompt_tokens for report in routers)
    if role is Role.DECODE:
        return held
    return sum(report.queued_prompt_tokens for report in routers) - held


def _in_router(routers: tuple[RouterReport, ...], role: Role) -> Mapping[Signal, float]:
    """Return the waiting requests and tokens of the role; requests are estimated from tokens."""
    tokens = queued_tokens(routers, role)
    share = tokens / max(1, sum(report.queued_prompt_tokens for report in routers))
    requests = share * sum(report.queued_requests for report in routers)
    return {Signal.QUEUE: requests, Signal.CONCURRENCY: requests, Signal.TOKENS: float(tokens)}
