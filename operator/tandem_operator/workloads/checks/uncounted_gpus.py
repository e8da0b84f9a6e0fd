"""GPUs that a pool's pods would hold in addition to those of `gpusPerReplica`.

Budgets, quotas, costs and goodput per GPU count `gpusPerReplica` of one resource. A GPU in any
other field would exceed a budget that Tandem promises to keep. So the pool is refused.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tandem_operator.api import PoolSpec
from tandem_operator.workloads.builders.services import COMPONENTS
from tandem_operator.workloads.objection import Objection
from tandem_operator.workloads.pool_names import ENGINE, ROUTER

# Without nvidia.com/gpumem or nvidia.com/rdma: these accompany a GPU, but are none.
_GPU = re.compile(
    r"nvidia\.com/(gpu([.-].+)?|mig-.+)|amd\.com/(gpu|[sdqc]px_.+)|gpu\.intel\.com/(i915|xe)"
)


def gpu_objections(spec: PoolSpec) -> Iterator[Objection]:
    """Yield a sentence for each field that asks for a GPU that is not counted."""
    for component in COMPONENTS:
        fleet = spec.router if component == ROUTER else spec.fleets[component]
        own = None if component == ROUTER else spec.engine.gpu_resource
        yield from _uncounted(fleet.resources.to_object(), f"{component}.resources", own=own)
        pod = (fleet.pod_template.spec if fleet.pod_template else None) or {}
        for field in ("containers", "initContainers"):
            path = f"{component}.podTemplate.spec.{field}"
            for container in _mappings(pod.get(field)):
                # A container that ends before the engine starts uses the engine's own GPUs.
                before = field == "initContainers" and container.get("restartPolicy") != "Always"
                shares = before or (field == "containers" and container.get("name") == ENGINE)
                yield from _uncounted(
                    container.get("resources"),
                    f"{path}[{container.get('name')}].resources",
                    own=own if shares else None,
                )


def _uncounted(resources: Any, path: str, *, own: str | None) -> Iterator[Objection]:
    """Yield the same for one container; its GPUs of `own` are counted."""
    told = {own}
    for kind in ("limits", "requests"):
        given = resources.get(kind) if isinstance(resources, Mapping) else None
        for name, amount in given.items() if isinstance(given, Mapping) else ():
            if amount is None or name in told or not _GPU.fullmatch(str(name)):
                continue
            told.add(name)
            field = f"{path}.{kind}[{name}]"
            why = "asks for a GPU that gpusPerReplica does not count"
            yield Objection(
                field,
                f"{field} {why}; leave it out, and let engine.accelerator and gpusPerReplica say"
                " which GPUs engine pods get",
            )


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
