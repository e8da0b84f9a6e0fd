"""The order in which pods go in a shrink, given to the ReplicaSet by pod-deletion-cost.

Pods on a node that is being drained go first. Then comes the pod whose end costs least: its
requests, and the work that the loss of its prefix cache makes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tandem_operator.core.guard.leaving_order import (
    cache_worth_tokens,
    computed_tokens_each,
    leaving_cost,
)
from tandem_operator.core.observation import EngineSample, PodPhase, RouterReport
from tandem_operator.core.role import Role
from tandem_operator.workloads.observed.live_objects import SeenPod

LEAVING_COST = -1
UNKNOWN_LOAD_COST = 2**31 - 1
"""The cost of a pod without known load: it may be the busiest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCost:
    """A pod-deletion-cost annotation to write before a shrink; the cheapest pod goes first."""

    pod: str
    cost: int


def deletion_costs(
    pods: Iterable[SeenPod],
    engines: Iterable[EngineSample],
    routers: Sequence[RouterReport] = (),
) -> tuple[PodCost, ...]:
    """Return the annotations of Ready pods that differ from the live ones.

    Kubernetes removes pods that are not Ready first, without these annotations.
    """
    load: Mapping[str, float] = {sample.pod: sample.running + sample.waiting for sample in engines}
    worth = cache_worth_tokens(routers)
    legs = (leg for report in routers for leg in report.legs if leg.role is Role.PREFILL)
    each = computed_tokens_each(legs)

    def cost_of(pod: SeenPod) -> int:
        if pod.leaving:
            return LEAVING_COST
        requests = load.get(pod.name)
        if requests is None:
            return UNKNOWN_LOAD_COST
        cost = leaving_cost(requests, worth_tokens=worth.get(pod.name, 0), tokens_each=each)
        return min(cost, UNKNOWN_LOAD_COST - 1)

    return tuple(
        PodCost(pod=pod.name, cost=cost)
        for pod in pods
        if pod.phase is PodPhase.READY and pod.deletion_cost != str(cost := cost_of(pod))
    )
