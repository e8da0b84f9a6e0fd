"""The values that a decision and a status need, from live objects. Unknown stays `None`."""

from collections.abc import Mapping
from dataclasses import dataclass

from tandem_contracts.names import REVISION_LABEL, ROLE_LABEL
from tandem_operator.core.observation import Observation, PodPhase, PodState
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec, RoleSpec
from tandem_operator.workloads.labels import DELETION_COST_ANNOTATION, TEMPLATE_ANNOTATION
from tandem_operator.workloads.observed.lapses import lapsed_s
from tandem_operator.workloads.observed.troubles import deployment_trouble, pod_trouble
from tandem_operator.workloads.pod_status import (
    condition_of,
    epoch_s,
    gates_of,
    has_ended,
    phase_of,
    scheduled_s,
)
from tandem_operator.workloads.pool_names import ENGINE, GPUS_OPTION, ROUTER, PoolName
from tandem_operator.workloads.world import Object, World


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A live pod of any component.

    Attributes:
        template: hash of its template.
        deletion_cost: its pod-deletion-cost annotation.
        leaving: whether its node is being drained.
        lapsed_s: since when it is no longer Ready, in epoch seconds.
        gpus: the GPUs of its engine; `None` on CPU, and for a router.
    """

    name: str
    component: str
    phase: PodPhase
    template: str | None
    trouble: str | None
    deletion_cost: str | None
    leaving: bool
    lapsed_s: float | None
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class LiveObjects:
    """One pool's live objects, read once.

    Attributes:
        replicas: `spec.replicas` by component; absent where there is no Deployment.
        refusals: why a component's Deployment gets no pods, if it gets none.
        outdated: number of pods that its Deployment must still replace, for any edit.
    """

    observation: Observation
    pods: tuple[SeenPod, ...]
    replicas: Mapping[str, int]
    refusals: Mapping[str, str]
    outdated: Mapping[str, int]

    def of(self, component: str, phase: PodPhase | None = None) -> tuple[SeenPod, ...]:
        """Return the component's pods, all or those in one phase."""
        return tuple(
            pod
            for pod in self.pods
            if pod.component == component and (phase is None or pod.phase is phase)
        )

    def gpus_per_replica(self, role: Role, spec: RoleSpec) -> int:
        """Return a replica's GPUs for budgets: those of the largest one during a rollout."""
        return max(spec.gpus_per_replica, *(pod.gpus or 0 for pod in self.of(role)), 0)

    def gpus_held(self, policy: PoolSpec) -> int:
        """Return the GPUs of engine pods that have a node, 1 unit each if replicas hold none."""
        return sum(
            pod.gpus or policy.roles[role].gpus_per_replica
            for role in Role
            for pod in self.of(role)
            if pod.phase is not PodPhase.UNSCHEDULED
        )


def see(world: World, name: PoolName) -> LiveObjects:
    """Read the world's objects."""
    live = [pod for pod in world.pods if not has_ended(pod)]
    cordoned = world.cordoned or frozenset()
    pods = tuple(seen for pod in live if (seen := _seen_pod(pod, cordoned)) is not None)
    deployments = {
        component: found
        for component in (*Role, ROUTER)
        if (found := _deployment(world, name.child(component))) is not None
    }
    replicas = {
        component: int(replicas)
        for component, found in deployments.items()
        if (replicas := (found.get("spec") or {}).get("replicas")) is not None
    }
    refusals = {
        str(component): trouble
        for component, found in deployments.items()
        if (trouble := deployment_trouble(found)) is not None
    }
    observation = Observation(
        replicas={role: replicas[role] for role in Role if role in replicas},
        pods=tuple(state for pod in live if (state := _pod_state(pod, cordoned)) is not None),
        engines=world.engines,
        routers=world.routers,
        router_pods=world.router_pods,
        turned_away=not any(
            pod.component == ROUTER and pod.phase is PodPhase.READY for pod in pods
        ),
        latency=world.latency,
    )
    return LiveObjects(
        observation=observation,
        pods=pods,
        replicas={str(key): count for key, count in replicas.items()},
        refusals=refusals,
        outdated={str(key): _outdated(found) for key, found in deployments.items()},
    )


def _outdated(deployment: Object) -> int:
    status = deployment.get("status") or {}
    return int(status.get("replicas") or 0) - int(status.get("updatedReplicas") or 0)


def _deployment(world: World, child: str) -> Object | None:
    for body in world.children:
        if body.get("kind") == "Deployment" and body["metadata"]["name"] == child:
            return body
    return None


def _seen_pod(pod: Object, cordoned: frozenset[str]) -> SeenPod | None:
    metadata = pod["metadata"]
    component = (metadata.get("labels") or {}).get(ROLE_LABEL)
    if not isinstance(component, str) or component not in (*Role, ROUTER):
        return None
    annotations = metadata.get("annotations") or {}
    phase = phase_of(pod)
    return SeenPod(
        name=metadata["name"],
        component=component,
        phase=phase,
        template=annotations.get(TEMPLATE_ANNOTATION),
        trouble=_trouble(pod, phase),
        deletion_cost=annotations.get(DELETION_COST_ANNOTATION),
        leaving=_stands_on(pod, cordoned),
        lapsed_s=lapsed_s(pod),
        gpus=_gpus_of(pod),
    )


def _gpus_of(pod: Object) -> int | None:
    """Return the GPUs by the launcher's option: a claim shows no GPUs in the pod."""
    for container in (pod.get("spec") or {}).get("containers") or ():
        for argument in container.get("args") or ():
            option, _, value = str(argument).partition("=")
            if container.get("name") == ENGINE and option == GPUS_OPTION and value.isdecimal():
                return int(value)
    return None


def _pod_state(pod: Object, cordoned: frozenset[str]) -> PodState | None:
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    created_s = epoch_s(metadata.get("creationTimestamp"))
    if labels.get(ROLE_LABEL) not in tuple(Role) or created_s is None:
        return None
    phase = phase_of(pod)
    changed_s = epoch_s(condition_of(pod, "Ready").get("lastTransitionTime"))
    ready = phase is PodPhase.READY
    return PodState(
        name=metadata["name"],
        role=Role(labels[ROLE_LABEL]),
        revision=labels.get(REVISION_LABEL, ""),
        phase=phase,
        created_s=created_s,
        ready_s=changed_s if ready else None,
        problem=_trouble(pod, phase),
        unready_s=None if ready else changed_s,
        leaving=_stands_on(pod, cordoned),
        gates=gates_of(pod),
        scheduled_s=scheduled_s(pod),
    )


def _stands_on(pod: Object, nodes: frozenset[str]) -> bool:
    return (pod.get("spec") or {}).get("nodeName") in nodes


def _trouble(pod: Object, phase: PodPhase) -> str | None:
    if phase in (PodPhase.READY, PodPhase.TERMINATING):
        return None
    return pod_trouble(pod)
