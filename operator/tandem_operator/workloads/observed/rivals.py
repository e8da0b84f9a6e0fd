"""Other managers of replicas that Tandem sets, and when Tandem leaves the count to them.

An autoscaler writes again every 15 seconds, and each round makes a pod and kills it. So Tandem sets
back a count that a person set once. It leaves alone a count that an autoscaler sets, or any manager
for a third time. After a while, one write shows whether the other manager is still active.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tandem_contracts.names import ROLE_LABEL
from tandem_operator.workloads.world import Object, Rival

TURNS, WITHIN_S = 3, 600.0
LEFT_ALONE_S = 600.0
WATCHED_S = 120.0
"""Time for which a write must stand to end the fight; an autoscaler looks every 15 seconds."""

AN_AUTOSCALER = "a HorizontalPodAutoscaler"
"""Words for an autoscaler: its name is not among the managers of the fields that it writes."""

_AUTOSCALER = ("kube-controller-manager", "scale")


@dataclass(slots=True)
class _Fight:
    rival: str
    turns: deque[float] = field(default_factory=deque)
    left_alone_until_s: float | None = None
    tried: bool = False
    """Whether Tandem's count stood, or was written, since then."""


class Rivals:
    """The fights over one pool's replica counts."""

    def __init__(self) -> None:
        self._fights: dict[str, _Fight] = {}

    def look(
        self,
        children: Iterable[Object],
        *,
        ours: Collection[str],
        is_ours: Callable[[Object], bool],
        now_s: float,
    ) -> Mapping[str, Rival]:
        """Return the managers that are left alone now, and the next memory, by component.

        Args:
            children: of the pool; its Deployments are looked at.
            ours: components whose replicas Tandem sets.
            is_ours: whether Tandem's own write of a Deployment's replicas stands.
            now_s: epoch seconds.
        """
        for component in self._fights.keys() - set(ours):
            del self._fights[component]
        for child in children:
            component = str((child["metadata"].get("labels") or {}).get(ROLE_LABEL))
            if child.get("kind") != "Deployment" or component not in ours:
                continue
            if not is_ours(child):
                self._met(component, child, now_s)
            elif component in self._fights:
                self._fights[component].tried = True
        for component, fight in list(self._fights.items()):
            until_s = fight.left_alone_until_s
            if until_s is not None and now_s > until_s + WATCHED_S:
                del self._fights[component]
        return {
            component: Rival(fight.rival, left_alone=now_s < fight.left_alone_until_s)
            for component, fight in self._fights.items()
            if fight.left_alone_until_s is not None
        }

    def about(self, component: str) -> bool:
        """Return whether there is a fight over the component's count, also one left alone."""
        return component in self._fights

    def taken(self, component: str, manager: str, *, now_s: float) -> None:
        """Record that Tandem took a count back from another manager."""
        fight = self._fights.setdefault(component, _Fight(f"field manager {manager}"))
        fight.tried = True
        fight.turns.append(now_s)
        while fight.turns[0] < now_s - WITHIN_S:
            fight.turns.popleft()
        if len(fight.turns) >= TURNS:
            self._leave_alone(fight, now_s)

    def _met(self, component: str, deployment: Object, now_s: float) -> None:
        """Record that another manager's count stands."""
        fight = self._fights.get(component)
        until_s = None if fight is None else fight.left_alone_until_s
        autoscaler = _AUTOSCALER in _setters(deployment)
        if until_s is None and autoscaler:
            self._fights[component] = fight = _Fight(AN_AUTOSCALER)
            self._leave_alone(fight, now_s)
        elif fight is not None and until_s is not None and now_s >= until_s and fight.tried:
            self._leave_alone(fight, now_s)

    @staticmethod
    def _leave_alone(fight: _Fight, now_s: float) -> None:
        fight.left_alone_until_s = now_s + LEFT_ALONE_S
        fight.turns.clear()
        fight.tried = False


def _setters(deployment: Object) -> frozenset[tuple[str, str]]:
    """Return manager and subresource of each owner of `spec.replicas`."""
    return frozenset(
        (str(entry.get("manager")), str(entry.get("subresource") or ""))
        for entry in deployment["metadata"].get("managedFields") or ()
        if "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    )
