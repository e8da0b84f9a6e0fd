"""Deployments: one builder for every component. They never contain replica counts."""

from tandem_operator.core.guard.rollout import RolloutStep
from tandem_operator.workloads.builders.pod_templates import Template
from tandem_operator.workloads.labels import labels_of, selector_of
from tandem_operator.workloads.pool_names import PoolName
from tandem_operator.workloads.world import Object

PROGRESS_DEADLINE_S = 3600


def deployment(name: PoolName, component: str, template: Template, *, step: RolloutStep) -> Object:
    """Return a component's Deployment, without `spec.replicas`: another manager writes that field.

    Args:
        name: the pool.
        component: a role or the router.
        template: its pods.
        step: the next step of a rollout.
    """
    head = name.head(
        api_version="apps/v1",
        kind="Deployment",
        child=name.child(component),
        labels=labels_of(name, component),
    )
    spec: Object = {
        "selector": {"matchLabels": selector_of(name, component)},
        "strategy": _strategy(step),
        "revisionHistoryLimit": 3,
        "progressDeadlineSeconds": PROGRESS_DEADLINE_S,
        "template": template.body,
    }
    if step is RolloutStep.WAIT:
        spec["paused"] = True
    return head | {"spec": spec}


def _strategy(step: RolloutStep) -> Object:
    if step is RolloutStep.STOP_FIRST:
        return {"type": "Recreate"}
    surge = step is RolloutStep.SURGE
    rolling = {"maxSurge": int(surge), "maxUnavailable": int(not surge)}
    return {"type": "RollingUpdate", "rollingUpdate": rolling}
