"""The checks of nodes: the GPUs that pools ask for, and the network between nodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from tandem_operator.api import (
    Device,
    InvalidPoolError,
    parse_pool,
    parse_status,
    quantity,
)
from tandem_operator.api.v1alpha1.engine import WHOLE_GPUS
from tandem_operator.cli.diagnosis.check_result import CheckResult, note, ok, problem
from tandem_operator.cli.input.cluster_facts import ClusterFacts, Object, Topic
from tandem_operator.cli.input.pool_list import name_of

# By the domain of the resources that the vendor's device plugin offers.
_LABELS = {
    "nvidia.com": ("nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present"),
    "amd.com": (
        "feature.node.kubernetes.io/amd-gpu",
        "feature.node.kubernetes.io/pci-1002.present",
    ),
}
_VENDORS = {"nvidia.com": "NVIDIA", "amd.com": "AMD"}
_PLUGIN = (
    "Install the device plugin or GPU operator of {vendor}, and wait until its pods run on the GPU"
    " nodes."
)
TCP = (
    "Without RDMA, KV blocks travel over TCP, at about 2.6 GB/s on an H100;"
    " docs/how-to/change-pods.md shows how pods get RDMA."
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The GPUs that a pool asks for: for one replica, now, and at most."""

    title: str
    resource: str
    replica: int
    now: int
    most: int


def gpus(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Check by resource whether nodes that take pods have room for the GPUs that pools ask for."""
    asked = [each for pool in facts.pools if (each := _asked(pool)) is not None]
    resources = dict.fromkeys((WHOLE_GPUS[Device.NVIDIA], *(each.resource for each in asked)))
    found = _allocatable(facts.nodes)
    others = {name: n for name, n in found.items() if name not in resources}
    if others:
        told = ", ".join(f"{count} {name}" for name, count in sorted(others.items()))
        yield note(Topic.NODES, f"nodes have {told}, which no pool asks for")
    for resource in resources:
        of_it = [each for each in asked if each.resource == resource]
        # A cluster whose pools ask for slices need not have whole GPUs.
        if of_it or (len(resources) == 1 and not facts.claim_templates):
            yield from _of_resource(resource, facts.nodes, of_it)


def _of_resource(
    resource: str, nodes: Sequence[Object], asked: Sequence[Asked]
) -> Iterator[CheckResult]:
    each_node = [_count(node, resource) for node in _open(nodes)]
    total, largest = sum(each_node), max(each_node, default=0)
    if not total:
        yield from _none(resource, nodes, asked)
        return
    now, most = sum(each.now for each in asked), sum(each.most for each in asked)
    stated = f"nodes have {total} {resource}; pools ask for {now}, and for {most} at most"
    too_large = [each for each in asked if each.replica > largest]
    for each in too_large:
        yield problem(
            Topic.NODES,
            f"a replica of {each.title} needs {each.replica} GPUs, and no node has more than"
            f" {largest}",
            "Lower gpusPerReplica, or add larger nodes: a replica runs on one node.",
        )
    if now > total:
        yield problem(Topic.NODES, stated, "Add GPU nodes, or set scaling.gpuBudget of the pools.")
    elif not too_large:
        yield ok(Topic.NODES, stated)


def _none(resource: str, nodes: Sequence[Object], asked: Sequence[Asked]) -> Iterator[CheckResult]:
    domain = resource.partition("/")[0]
    vendor = _VENDORS.get(domain, domain)
    plugin = _PLUGIN.format(vendor=vendor)
    seen = [name_of(node) for node in nodes if _looks_like_a_gpu_node(node, domain)]
    if seen:
        some = ", ".join(seen[:5]) + (" and more" if len(seen) > 5 else "")
        yield problem(Topic.NODES, f"nodes with {vendor} GPUs offer no {resource}: {some}", plugin)
    elif asked:
        titles = ", ".join(each.title for each in asked[:5])
        yield problem(
            Topic.NODES,
            f"no node that takes pods has {resource}, and pools ask for it: {titles}",
            f"Add GPU nodes. {plugin}",
        )
    else:
        yield ok(Topic.NODES, "no node has GPUs, and no pool asks for one")


def rdma(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Check whether nodes offer RDMA; the result is a note in any case."""
    found = {
        key: count
        for key, count in _allocatable(facts.nodes, of="rdma", besides="hca").items()
        if count
    }
    told = ", ".join(f"{count} {key}" for key, count in sorted(found.items()))
    yield (
        note(Topic.RDMA, f"nodes offer {told}")
        if told
        else note(Topic.RDMA, "nodes offer no RDMA resource", TCP)
    )


def _asked(pool: Object) -> Asked | None:
    """Return the devices that a pool asks for; `None` if there are none or it is not readable."""
    try:
        parsed, status = parse_pool(pool), parse_status(pool)
    except (InvalidPoolError, ValidationError):
        return None
    resource = parsed.spec.engine.gpu_resource
    if resource is None:
        return None
    now = most = 0
    for role, fleet in parsed.spec.fleets.items():
        told = status.prefill if role == "prefill" else status.decode
        current = None if told is None else told.current
        now += fleet.gpus * (fleet.min_replicas if current is None else current)
        most += fleet.gpus * fleet.max_replicas
    budget = parsed.spec.scaling.gpu_budget
    return Asked(
        title=f"{parsed.metadata.namespace}/{parsed.metadata.name}",
        resource=resource,
        replica=max(fleet.gpus for fleet in parsed.spec.fleets.values()),
        now=now,
        most=most if budget is None else min(most, budget),
    )


def _open(nodes: Sequence[Object]) -> list[Object]:
    """Return the nodes that are not cordoned."""
    return [node for node in nodes if not (node.get("spec") or {}).get("unschedulable")]


def _allocatable(
    nodes: Sequence[Object], *, of: str = "gpu", besides: str = "gpu"
) -> Mapping[str, int]:
    """Return the amounts on open nodes of each resource with one of two words in its name."""
    found: dict[str, int] = {}
    for node in _open(nodes):
        for name in (node.get("status") or {}).get("allocatable") or {}:
            if of in name or besides in name:
                found[name] = found.get(name, 0) + _count(node, name)
    return found


def _count(node: Object, resource: str) -> int:
    value = ((node.get("status") or {}).get("allocatable") or {}).get(resource, 0)
    try:
        return int(quantity(value))
    except ValueError:
        return 0


def _looks_like_a_gpu_node(node: Object, domain: str) -> bool:
    labels = (node.get("metadata") or {}).get("labels") or {}
    return any(labels.get(label) == "true" for label in _LABELS.get(domain, ()))
