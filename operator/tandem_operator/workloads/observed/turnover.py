"""The progress of each role in replacing its pods, from live objects."""

from collections.abc import Mapping

from tandem_operator.core.decision import Decision
from tandem_operator.core.guard.rollout import Turnover
from tandem_operator.core.observation import PodPhase
from tandem_operator.core.role import Role
from tandem_operator.workloads.builders.pod_templates import Template
from tandem_operator.workloads.observed.live_objects import LiveObjects, SeenPod


def turnovers(
    seen: LiveObjects, templates: Mapping[str, Template], *, decision: Decision | None = None
) -> dict[Role, Turnover]:
    """Return the progress of each role, with the counts of a decision if there is one."""
    return {
        role: _turnover(
            seen,
            role,
            template=templates[role].hash,
            to=0 if decision is None else decision.roles[role].to,
        )
        for role in Role
    }


def staying(seen: LiveObjects, component: str) -> list[SeenPod]:
    """Return the pods of a component that were not told to end."""
    return [pod for pod in seen.of(component) if pod.phase is not PodPhase.TERMINATING]


def old_pods(seen: LiveObjects, component: str, *, template: str) -> int:
    """Return the number of these pods that must be replaced."""
    pods = staying(seen, component)
    old = sum(pod.template != template for pod in pods)
    # Pods that another client restarts have the same template hash; only the Deployment shows it.
    return min(len(pods), max(old, seen.outdated.get(component, 0)))


def _turnover(seen: LiveObjects, role: Role, *, template: str, to: int) -> Turnover:
    found = seen.of(role)
    pods = staying(seen, role)
    fresh = [pod for pod in pods if pod.template == template]
    return Turnover(
        asked=max(seen.replicas.get(role, 0), to),
        pods=len(pods),
        old=old_pods(seen, role, template=template),
        starting=sum(pod.phase is not PodPhase.READY for pod in fresh),
        leaving=len(found) - len(pods),
    )
