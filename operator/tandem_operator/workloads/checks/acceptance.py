"""Faults of a pool that neither CEL nor the API server explains well, a sentence each."""

from collections.abc import Iterator, Mapping
from typing import Any

from tandem_contracts.names import VLLM_IMAGE, VLLM_ROCM_IMAGE
from tandem_operator.api import Device, PodTemplate, PoolSpec, Resources, quantity
from tandem_operator.core.role import Role
from tandem_operator.workloads.builders.pod_restrictions import Own, breaches
from tandem_operator.workloads.builders.pod_templates import (
    LEAST_GRACE_PERIOD_S,
    asked_template,
    engine_image,
)
from tandem_operator.workloads.builders.services import COMPONENTS
from tandem_operator.workloads.checks.engine_options import option_objections
from tandem_operator.workloads.checks.prometheus_server import server_objections
from tandem_operator.workloads.checks.uncounted_gpus import gpu_objections
from tandem_operator.workloads.checks.unreadable_schedules import schedule_objections
from tandem_operator.workloads.objection import Objection, name_objections
from tandem_operator.workloads.pool_names import ROUTER, PoolName, own_containers
from tandem_operator.workloads.world import Installation

_GRACE = "terminationGracePeriodSeconds"
# With less, not even the sandbox starts, and Kubernetes says so only in an Event of the pod.
_LEAST_MEMORY = "64Mi"
_EXAMPLE_NAME = "weights-1"
_EXAMPLE = "registry.example.com/first:1.0"


def objections(
    spec: PoolSpec, installation: Installation, *, name: PoolName
) -> tuple[Objection, ...]:
    """Return the reasons why the pool cannot run as written; empty if it can."""
    return (
        *_objections(spec, installation),
        *gpu_objections(spec),
        *option_objections(spec, any_option=installation.any_extra_args),
        *schedule_objections(spec.scaling),
        *_breaches(spec, installation, name),
    )


def _breaches(spec: PoolSpec, installation: Installation, name: PoolName) -> Iterator[Objection]:
    """Yield the parts of a spec that this installation does not allow to authors of pools."""
    if installation.any_pod_template:
        return
    hub = spec.model.source.hugging_face
    token = None if hub is None else hub.token_secret_ref
    for component in COMPONENTS:
        own = Own(
            service_account=name.child(component),
            secret=None if token is None or component == ROUTER else (token.name, token.key),
        )
        asked = asked_template(spec, component, name=name)
        yield from breaches(asked, path=f"{component}.podTemplate", own=own)


def _objections(spec: PoolSpec, installation: Installation) -> Iterator[Objection]:
    if not all(engine_image(spec, role, installation) for role in Role):
        examples = {
            Device.CPU: "registry.example.com/tandem/engine-cpu:1.0",
            Device.NVIDIA: VLLM_IMAGE,
            Device.AMD: VLLM_ROCM_IMAGE,
        }
        yield Objection(
            "engine.image",
            "engine.image is needed, since the operator was installed without an engine image for"
            f" device {spec.engine.device}; write for example engine.image:"
            f" {examples[spec.engine.device]}",
        )
    if not installation.launcher_image:
        yield Objection(
            "engine",
            "engine: no pod can start, since the operator was installed without a launcher image;"
            " set launcherImage of its chart, or its variable"
            " TANDEM_LAUNCHER_IMAGE=registry.example.com/tandem/launcher:1.0",
        )
    if not (spec.router.image or installation.router_image):
        yield Objection(
            "router.image",
            "router.image is needed, since the operator was installed without a router image; write"
            " for example router.image: registry.example.com/tandem/router:1.0",
        )
    yield from server_objections(spec.metrics, installation)
    yield from _secret_objections(spec, installation)
    yield from _cache_objections(spec, installation)
    for role, fleet in spec.fleets.items():
        own = fleet.engine and fleet.engine.resource_claim_template_name
        if own and spec.engine.claim_template is None:
            field = f"{role}.engine.resourceClaimTemplateName"
            yield Objection(
                field,
                f"{field} replaces that of engine.accelerator, which names none; write"
                f" engine.accelerator: {{resourceClaimTemplateName: {own}}} too, or leave it out",
            )
        yield from _memory_objections(fleet.resources, f"{role}.resources", example="4Gi")
        yield from _template_objections(fleet.pod_template, role)
    yield from _memory_objections(spec.router.resources, "router.resources", example="512Mi")
    yield from _template_objections(spec.router.pod_template, ROUTER)


def _secret_objections(spec: PoolSpec, installation: Installation) -> Iterator[Objection]:
    source, secrets = spec.model.source, installation.hub_token_secrets
    if source.credentials_secret_ref is not None:
        named, field = source.credentials_secret_ref.name, "credentialsSecretRef"
    elif source.hugging_face is not None and source.hugging_face.token_secret_ref is not None:
        named, field = source.hugging_face.token_secret_ref.name, "huggingFace.tokenSecretRef"
    else:
        return
    field = f"model.source.{field}.name"
    yield from name_objections(named, field, example=_EXAMPLE_NAME)
    if secrets and named not in secrets:
        some = " or ".join(sorted(secrets)[:3])
        why = f"must be a Secret that the operator was installed with; write {some}"
        yield Objection(field, f"{field} {why}")


def _cache_objections(spec: PoolSpec, installation: Installation) -> Iterator[Objection]:
    if spec.model.cache is None:
        return
    named = spec.model.cache.storage_class_name
    yield from name_objections(named, "model.cache.storageClassName", example=_EXAMPLE_NAME)
    folder = spec.model.cache.host_path
    allowed = installation.cache_host_paths
    # Without folders below an allowed one: pods could put a link to any other folder there.
    if folder is None or allowed is None or folder.path in allowed or installation.any_pod_template:
        return
    field = "model.cache.hostPath.path"
    some = " or ".join(sorted(allowed)[:3])
    why = f"must be a folder that the operator was installed with; write {some}"
    if not allowed:
        why = (
            "is refused, since the operator was installed without a folder of nodes for caches;"
            f" set pools.cacheHostPaths: [{folder.path}] of its chart, or use persistentVolumeClaim"
            " or size"
        )
    yield Objection(field, f"{field} {why}")


def _memory_objections(resources: Resources, path: str, *, example: str) -> Iterator[Objection]:
    limit = (resources.limits or {}).get("memory")
    if limit is not None and quantity(limit) < quantity(_LEAST_MEMORY):
        yield Objection(
            f"{path}.limits.memory",
            f"{path}.limits.memory: no pod of Tandem can start within {limit}; write for example"
            f" {example}, or leave it out",
        )


def _template_objections(template: PodTemplate | None, component: str) -> Iterator[Objection]:
    given = (template.spec if template else None) or {}
    path = f"{component}.podTemplate.spec"
    for field in ("containers", "initContainers"):
        # A null would remove the restrictions of Tandem's own container.
        if field in given:
            own = own_containers(component).get(field)
            yield from _container_objections(given[field], f"{path}.{field}", own)
    grace = given.get(_GRACE, LEAST_GRACE_PERIOD_S)
    if not isinstance(grace, int) or isinstance(grace, bool) or grace < LEAST_GRACE_PERIOD_S:
        yield Objection(
            f"{path}.{_GRACE}",
            f"{path}.{_GRACE} must be at least {LEAST_GRACE_PERIOD_S} seconds, so that running"
            " requests can finish; write for example 300",
        )


def _container_objections(containers: Any, path: str, own: str | None) -> Iterator[Objection]:
    if not isinstance(containers, list):
        example = f"name: {own}" if own else f"name: first, image: {_EXAMPLE}"
        why = f"must be a list; write for example [{{{example}}}]"
        yield Objection(path, f"{path} {why}")
        return
    seen = set()
    for index, container in enumerate(containers):
        item = f"{path}[{index}]"
        name = container.get("name") if isinstance(container, Mapping) else None
        if not isinstance(name, str) or not name:
            why = "is required; write " + (f"{own} for Tandem's own container" if own else "first")
            yield Objection(f"{item}.name", f"{item}.name {why}")
        elif name in seen:
            why = f"{name!r} appears twice; give each its own name"
            yield Objection(f"{item}.name", f"{item}.name: {why}")
        elif not container.get("image") and name != own:
            instead = f"name it {own} to change Tandem's own container, or " if own else ""
            why = f"container {name!r} has no image; {instead}give it an image to run beside it"
            yield Objection(item, f"{item}: {why}")
        seen.add(name if isinstance(name, str) else None)
