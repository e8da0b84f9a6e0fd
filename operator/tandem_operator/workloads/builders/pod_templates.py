"""Pod templates in three layers: Tandem's defaults, the user's pod template, Tandem's own fields.

A user may have reasons to change defaults: security context, grace period, probe thresholds. Other
parts of Tandem rely on Tandem's own fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tandem_contracts.names import (
    CONTROL_PORT,
    HTTP_PORT,
    KEY_ANNOTATION,
    POD_IP_ENV,
    REVISION_ENV,
    REVISION_LABEL,
    ROUTER_INTERNAL_PORT,
    SIDE_CHANNEL_PORT,
)
from tandem_operator.api import Device, Placement, PodTemplate, PoolSpec
from tandem_operator.core.role import Role
from tandem_operator.workloads.builders import launcher_copy, weights
from tandem_operator.workloads.builders.engine_args import (
    STOP_MARGIN_S,
    digest,
    engine_args,
    revision_of,
)
from tandem_operator.workloads.builders.engine_key import key_env
from tandem_operator.workloads.builders.merge import merged, overridden
from tandem_operator.workloads.builders.pod_restrictions import CONFINED, CONTAINED
from tandem_operator.workloads.labels import TEMPLATE_ANNOTATION, labels_of, selector_of
from tandem_operator.workloads.pool_names import (
    ENGINE,
    GPU_CLAIM,
    ROUTER,
    PoolName,
    own_containers,
)
from tandem_operator.workloads.world import Installation, Object

GRACE_PERIOD_S = 300
LEAST_GRACE_PERIOD_S = 2 * STOP_MARGIN_S
USER_ID = 65532


@dataclass(frozen=True, slots=True)
class Template:
    """A rendered pod template, its hash, and the user's fields that Tandem's own replaced."""

    body: Object
    hash: str
    overridden: tuple[str, ...]


def engine_template(
    spec: PoolSpec, role: Role, *, name: PoolName, installation: Installation, with_key: bool
) -> Template:
    """Return the pods of one role; `with_key`: they require the pool's key from their callers."""
    defaults, given = _below(spec, role, name=name)
    grace_period_s = _grace_period_s(defaults, given)
    images = {each: engine_image(spec, each, installation) for each in Role}
    launcher_image = installation.launcher_image
    container = {
        "name": ENGINE,
        "image": images[role],
        "command": list(launcher_copy.COMMAND),
        "args": engine_args(spec, role, name=name, grace_period_s=grace_period_s),
        "env": [*_engine_env(spec), *([key_env(name)] if with_key else [])],
        "ports": [
            _port("http", HTTP_PORT),
            _port("control", CONTROL_PORT),
            _port("side-channel", SIDE_CHANNEL_PORT),
        ],
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
            {"name": "cache", "mountPath": weights.CACHE_MOUNT},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108
            launcher_copy.MOUNT,
            *weights.mounts(spec.model.source),
        ],
        **_probes(startup="/startup", liveness="/live", readiness="/ready", port=CONTROL_PORT),
    }
    gpus, claims = _gpus_of(spec, role)
    container |= gpus
    revision = revision_of(spec, images=images, launcher_image=launcher_image)
    labels = labels_of(name, role) | {REVISION_LABEL: revision}
    own = {
        "metadata": {"labels": labels} | _annotated(name, with_key=with_key),
        "spec": {
            "restartPolicy": "Always",
            # Else a Service called `vllm` puts VLLM_PORT, which vLLM reads, into the environment.
            "enableServiceLinks": False,
            "initContainers": [launcher_copy.launcher_container(launcher_image)],
            "containers": [container],
            "volumes": [launcher_copy.VOLUME, *weights.volumes(spec.model)],
            **claims,
        },
    }
    return _layered(defaults, given, own)


def router_template(spec: PoolSpec, *, name: PoolName, installation: Installation) -> Template:
    """Return the pods of the pool's routers."""
    defaults, given = _below(spec, ROUTER, name=name)
    container = {
        "name": ROUTER,
        "image": spec.router.image or installation.router_image,
        "command": ["tandem-router"],
        "args": [
            f"--pool={name.name}",
            f"--namespace={name.namespace}",
            f"--drain-timeout-s={_grace_period_s(defaults, given) - STOP_MARGIN_S}",
        ],
        "env": [key_env(name)],
        "ports": [_port("http", HTTP_PORT), _port("metrics", ROUTER_INTERNAL_PORT)],
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
        # Not /ready: where every router drains, kube-proxy sends clients to those that still serve.
        **_probes(startup="/health", liveness="/health", readiness="/accepting", port=HTTP_PORT),
    }
    own = {
        "metadata": {"labels": labels_of(name, ROUTER)} | _annotated(name, with_key=True),
        "spec": {
            "restartPolicy": "Always",
            "enableServiceLinks": False,
            "serviceAccountName": name.child(ROUTER),
            "automountServiceAccountToken": True,
            "containers": [container],
        },
    }
    return _layered(defaults, given, own)


def asked_template(spec: PoolSpec, component: str, *, name: PoolName) -> Object:
    """Return a component's pods as its user wants them: without Tandem's own fields."""
    defaults, given = _below(spec, component, name=name)
    asked: Object = merged(defaults, given)
    return asked


def engine_image(spec: PoolSpec, role: Role, installation: Installation) -> str:
    """Return the image of the spec, else the installation's for the device; empty without one."""
    by_device = {
        Device.CPU: installation.engine_image_cpu,
        Device.NVIDIA: installation.engine_image_gpu,
    }
    return spec.engine_of(role).image or by_device.get(spec.engine.device, "")


def _annotated(name: PoolName, *, with_key: bool) -> Object:
    return {"annotations": {KEY_ANNOTATION: name.engine_key}} if with_key else {}


_MIB = 1 << 20
_BESIDES_BODIES_MIB = 512
# The received body, the part that is sent on, and the part in transmission.
_COPIES_OF_BODIES = 3


def _router_resources(spec: PoolSpec) -> Object:
    """Return the resources of router pods, so that no client can make one use more."""
    bodies_mib = -(-spec.router.limits.in_flight_body_bytes // _MIB)
    limit_mib = _BESIDES_BODIES_MIB + _COPIES_OF_BODIES * bodies_mib
    return {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"memory": f"{limit_mib}Mi"},
    }


def _layered(defaults: Object, given: Object, own: Object) -> Template:
    body = merged(merged(defaults, given), own)
    template_hash = digest(body)
    annotated = {"metadata": {"annotations": {TEMPLATE_ANNOTATION: template_hash}}}
    return Template(merged(body, annotated), template_hash, overridden(given, own))


def _grace_period_s(defaults: Object, given: Object) -> int:
    return int(merged(defaults, given)["spec"]["terminationGracePeriodSeconds"])


def _below(spec: PoolSpec, component: str, *, name: PoolName) -> tuple[Object, Object]:
    """Return the two layers below Tandem's own fields: its defaults, and the user's template."""
    if component == ROUTER:
        given = _given(spec.router.pod_template, ROUTER)
        return _router_defaults(spec, name=name), given
    role = Role(component)
    given = _given(spec.fleets[role].pod_template, role)
    return _engine_defaults(spec, role, name=name), given


def _given(template: PodTemplate | None, component: str) -> Object:
    # Read by alias, with nulls: a null removes a default.
    if template is None:
        return {}
    metadata = template.metadata.to_object() if template.metadata else {}
    spec = dict(template.spec or {})
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            own = own_containers(component).get(field)
            spec[field] = [_contained(container, own=own) for container in spec[field]]
    return {"metadata": metadata, "spec": spec}


def _contained(container: Any, *, own: str | None) -> Any:
    """Return one of the user's containers with the defaults of every container."""
    if not isinstance(container, Mapping) or container.get("name") == own:
        return container
    return merged(CONTAINED, container)


def _router_defaults(spec: PoolSpec, *, name: PoolName) -> Object:
    return _defaults(
        ROUTER,
        placement=spec.placement,
        name=name,
        resources=spec.router.resources.to_object() or _router_resources(spec),
        volumes=[_volume("tmp")],
        start_limit_s=60,
    )


def _engine_defaults(spec: PoolSpec, role: Role, *, name: PoolName) -> Object:
    defaults = _defaults(
        ENGINE,
        placement=spec.placement,
        name=name,
        component=role,
        resources=spec.fleets[role].resources.to_object(),
        volumes=[
            _volume("tmp"),
            weights.cache_volume(spec.model.cache, name=name),
            # vLLM's processes share tensors through it; a container's own 64 MiB are too few.
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
        ],
        # Half an hour and more, for weights over a network.
        start_limit_s=2400,
    )
    pod = defaults["spec"] | {
        "serviceAccountName": name.child(role),
        "automountServiceAccountToken": False,
        "initContainers": [launcher_copy.DEFAULTS],
    }
    if spec.model.cache is not None:
        # A new volume belongs to root; all pods of the pool write to it as this group.
        group = {"fsGroup": USER_ID, "fsGroupChangePolicy": "OnRootMismatch"}
        pod["securityContext"] = pod["securityContext"] | group
    return defaults | {"spec": pod}


def _defaults(
    container: str,
    *,
    placement: Placement,
    name: PoolName,
    resources: Object,
    volumes: list[Object],
    start_limit_s: int,
    component: str = ROUTER,
) -> Object:
    return {
        "spec": {
            "terminationGracePeriodSeconds": GRACE_PERIOD_S,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER_ID,
                "runAsGroup": USER_ID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **_placed(placement, selector_of(name, component)),
            "containers": [
                {
                    "name": container,
                    "resources": resources,
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    **CONFINED,
                    "startupProbe": {
                        "periodSeconds": 2,
                        "timeoutSeconds": 5,
                        "failureThreshold": start_limit_s // 2,
                    },
                    "livenessProbe": {
                        "periodSeconds": 10,
                        "timeoutSeconds": 10,
                        "failureThreshold": 6,
                    },
                    "readinessProbe": {
                        "periodSeconds": 2,
                        "timeoutSeconds": 5,
                        "failureThreshold": 3,
                    },
                }
            ],
            "volumes": volumes,
        }
    }


def _placed(placement: Placement, selector: Object) -> Object:
    spread = [
        {
            "maxSkew": each.max_skew,
            "topologyKey": each.topology_key,
            "whenUnsatisfiable": each.when_unsatisfiable.value,
            "labelSelector": {"matchLabels": selector},
        }
        for each in placement.spread
    ]
    first = placement.priority_class_name
    return {"topologySpreadConstraints": spread} | ({"priorityClassName": first} if first else {})


def _engine_env(spec: PoolSpec) -> list[Object]:
    env: list[Object] = [
        {"name": POD_IP_ENV, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "HOME", "value": weights.CACHE_MOUNT},
        {
            "name": REVISION_ENV,
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{REVISION_LABEL}']"}},
        },
    ]
    return [*env, *weights.environment(spec.model.source)]


def _gpus_of(spec: PoolSpec, role: Role) -> tuple[Object, Object]:
    """Return the GPU fields of the engine container and of its pod; none on CPU."""
    template = spec.engine_of(role).claim_template
    if template is not None:
        claim = {"name": GPU_CLAIM, "resourceClaimTemplateName": template}
        return {"resources": {"claims": [{"name": GPU_CLAIM}]}}, {"resourceClaims": [claim]}
    resource = spec.engine.gpu_resource
    if resource is None:
        return {}, {}
    gpus = {resource: str(spec.fleets[role].gpus)}
    return {"resources": {"requests": gpus, "limits": gpus}}, {}


def _probes(*, startup: str, liveness: str, readiness: str, port: int) -> Mapping[str, Any]:
    paths = {"startupProbe": startup, "livenessProbe": liveness, "readinessProbe": readiness}
    return {
        probe: {"httpGet": {"path": path, "port": port, "scheme": "HTTP"}}
        for probe, path in paths.items()
    }


def _port(port_name: str, port: int) -> Object:
    return {"name": port_name, "containerPort": port, "protocol": "TCP"}


def _volume(volume: str) -> Object:
    return {"name": volume, "emptyDir": {}}
