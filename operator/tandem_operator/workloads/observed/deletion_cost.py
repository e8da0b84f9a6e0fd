"""The order in which pods go in a shrink, given to the ReplicaSet by pod-deletion-cost.

Pods on a node that is being drained go first, then the emptiest pods.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tandem_operator.core.observation import EngineSample, PodPhase
from tandem_operator.workloads.observed.live_objects import SeenPod

LEAVING_COST = -1
UNKNOWN_LOAD_COST = 2**31 - 1
"""The cost of a pod without known load: it may be the busiest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCost:
    """A pod-deletion-cost annotation to write before a shrink; the cheapest pod goes first."""

    pod: str
    cost: int


def deletion_costs(pods: Iterable[SeenPod], engines: Iterable[EngineSample]) -> tuple[PodCost, ...]:
    """Return the annotations of Ready pods that differ from the live ones.

    Kubernetes removes pods that are not Ready first, without these annotations.
    """
    load: Mapping[str, float] = {sample.pod: sample.running + sample.waiting for sample in engines}
    costs = [
        PodCost(pod=pod.name, cost=LEAVING_COST if pod.leaving else _cost(load.get(pod.name)))
        for pod in pods
        if pod.phase is PodPhase.READY
    ]
    live = {pod.name: pod.deletion_cost for pod in pods}
    return tuple(cost for cost in costs if live[cost.pod] != str(cost.cost))


def _cost(requests: float | None) -> int:
    return UNKNOWN_LOAD_COST if requests is None else min(round(requests), UNKNOWN_LOAD_COST - 1)
