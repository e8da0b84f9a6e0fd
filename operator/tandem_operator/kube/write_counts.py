"""The writer of a pass's replica counts, in an order that never holds too many pods."""

import logging
from collections.abc import Mapping

from tandem_operator.kube.apply import ApplyReport, ChildWriter
from tandem_operator.kube.client import Kube, Object
from tandem_operator.kube.kinds import DEPLOYMENT, POOL_ROLE
from tandem_operator.workloads.pass_plan import PassPlan
from tandem_operator.workloads.pool_names import PoolName, key_of

log = logging.getLogger(__name__)


async def write_counts(
    planned: PassPlan,
    observed: Mapping[tuple[str, str], Object],
    name: PoolName,
    *,
    kube: Kube,
    writer: ChildWriter,
) -> list[ApplyReport]:
    """Shrink before growing: growth waits for a pass that has seen the shrink."""
    steps: list[tuple[int, Object, int]] = []
    for component, replicas in planned.replicas.items():
        child = name.child(component)
        deployment = observed.get((DEPLOYMENT.kind, child)) or await kube.get(
            DEPLOYMENT, namespace=name.namespace, name=child
        )
        if deployment is not None:
            change = replicas - int(deployment["spec"].get("replicas", 1))
            steps.append((change, deployment, replicas))
    steps.sort(key=lambda step: step[0])
    shrinks = any(change < 0 for change, _, _ in steps)
    reports: list[ApplyReport] = []
    for change, deployment, replicas in steps:
        if shrinks and change > 0:
            continue
        reports.append(await writer.set_replicas(deployment, replicas))
        if reports[-1].written and change:
            about = {"namespace": name.namespace, "pool": name.name}
            extra = {**about, "deployment": key_of(deployment)[1], "to": replicas}
            log.info("replicas written", extra=extra)
    for role, count in planned.mirrored.items():
        await writer.mirror_replicas(observed[POOL_ROLE.kind, name.child(role)], count)
    return reports
