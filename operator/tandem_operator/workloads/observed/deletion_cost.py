"""Which pods go first in a shrink, said to the ReplicaSet by pod-deletion-cost.

Those on a node that is being emptied, then the emptiest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tandem_operator.core.observation import EngineSample, PodPhase
from tandem_operator.workloads.observed.live_objects import SeenPod

LEAVING_COST = -1
UNKNOWN_LOAD_COST = 2**31 - 1
"""A pod that nothing is known of may be the busiest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCost:
    """A pod-deletion-cost annotation to write before a shrink; the cheapest pod goes first."""

    pod: str
    cost: int


def deletion_costs(pods: Iterable[SeenPod], engines: Iterable[EngineSample]) -> tuple[PodCost, ...]:
    """Annotations for Ready pods that differ from the live ones.

    Pods that are not Ready go before all others without our help.
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
