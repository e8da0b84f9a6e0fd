"""How far each role has come in replacing its pods, from live objects."""

from collections.abc import Mapping

from tandem_operator.core.decision import Decision
from tandem_operator.core.guard.rollout import Turnover
from tandem_operator.core.observation import PodPhase
from tandem_operator.core.role import Role
from tandem_operator.workloads.builders.pod_templates import Template
from tandem_operator.workloads.observed.live_objects import LiveObjects


def turnovers(
    seen: LiveObjects, templates: Mapping[str, Template], *, decision: Decision | None = None
) -> dict[Role, Turnover]:
    """The state of each role, with the counts of a decision where there is one already."""
    return {
        role: _turnover(
            seen,
            role,
            template=templates[role].hash,
            to=0 if decision is None else decision.roles[role].to,
        )
        for role in Role
    }


def _turnover(seen: LiveObjects, role: Role, *, template: str, to: int) -> Turnover:
    found = seen.of(role)
    pods = [pod for pod in found if pod.phase is not PodPhase.TERMINATING]
    old = sum(pod.template != template for pod in pods)
    # What somebody else restarts carries the same template hash; only the Deployment knows of it.
    old = min(len(pods), max(old, seen.outdated.get(role, 0)))
    fresh = [pod for pod in pods if pod.template == template]
    return Turnover(
        asked=max(seen.replicas.get(role, 0), to),
        pods=len(pods),
        old=old,
        starting=sum(pod.phase is not PodPhase.READY for pod in fresh),
        leaving=len(found) - len(pods),
    )
