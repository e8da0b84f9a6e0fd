"""InferencePool: the one object that a user writes. Every field of its spec has an effect.

The models hold the defaults, and the CRD gets them from there. So `kubectl get -o yaml` shows them.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from tandem_operator.api.rules import ApiModel, Rule
from tandem_operator.api.v1alpha1.cost import Cost
from tandem_operator.api.v1alpha1.engine import Device, Engine
from tandem_operator.api.v1alpha1.fleet import Fleet, Management
from tandem_operator.api.v1alpha1.model import Model
from tandem_operator.api.v1alpha1.placement import Placement
from tandem_operator.api.v1alpha1.router import Router
from tandem_operator.api.v1alpha1.scaling import Metrics, Scaling
from tandem_operator.api.v1alpha1.slo import Slo

MAX_NAME_LENGTH = 40
_SERVICE_NAME = "^[a-z]([-a-z0-9]*[a-z0-9])?$"

_GPUS = {
    role: f"(has(self.{role}.gpusPerReplica) ? self.{role}.gpusPerReplica : 1)"
    for role in ("prefill", "decode")
}
_RESOURCE = "self.engine.accelerator.resource"
_NO_RESOURCE = f"!has(self.engine.accelerator) || !has({_RESOURCE})"
_NO_CLAIM = "!has(self.engine.accelerator) || has(self.engine.accelerator.resource)"
_SCHEDULES = "!has(self.scaling.schedules) || self.scaling.schedules.all(s,"
_SCHEDULED_BOUNDS = " && ".join(
    f"(!has(s.{role}) || self.{role}.management == 'Managed'"
    f" && s.{role}.minReplicas <= self.{role}.maxReplicas)"
    for role in _GPUS
)
_SCHEDULED_GPUS = " + ".join(
    f"(has(s.{role}) && s.{role}.minReplicas > self.{role}.minReplicas ? s.{role}.minReplicas"
    f" : self.{role}.minReplicas) * {gpus}"
    for role, gpus in _GPUS.items()
)
_MINIMUM_GPUS = " + ".join(f"self.{role}.minReplicas * {gpus}" for role, gpus in _GPUS.items())


class PoolSpec(ApiModel):
    """The wish of the user: a model, an SLO, and the bounds of each fleet."""

    model: Model
    """The model that the pool serves."""
    slo: Slo
    """Latency bounds of a request. An edit restarts nothing and is in force within seconds."""
    engine: Engine = Engine()
    """Settings of the engine pods."""
    prefill: Fleet
    """The fleet that computes prompts. Tandem sizes it to keep the TTFT bound."""
    decode: Fleet
    """The fleet that generates tokens. Tandem sizes it to keep the TPOT bound."""
    router: Router = Router()
    """The routers, which serve the OpenAI-compatible API of the pool."""
    scaling: Scaling = Scaling()
    """Limits of scaling, and its priority among pools."""
    metrics: Metrics = Metrics()
    """Source of the metrics behind Tandem's decisions."""
    cost: Cost | None = None
    """Price of a GPU. With it, status and metrics show the cost of the pool."""
    placement: Placement = Placement()
    """Nodes for the pods of all components, and their priority."""
    network_policies: Management = Management.MANAGED
    """Owner of the pool's NetworkPolicies. Managed: Tandem writes them. Only the pool's routers and
    engines, the operator and Prometheus can then reach an engine. External: Tandem writes none.
    NetworkPolicies add up, so a further peer needs only a policy of its own."""

    rules: ClassVar = (
        Rule(
            expression=f"!has(self.scaling.gpuBudget) || self.scaling.gpuBudget >= {_MINIMUM_GPUS}",
            message=(
                "scaling.gpuBudget must cover minReplicas x gpusPerReplica of prefill and decode"
                " together; write at least that sum, or lower minReplicas"
            ),
            holds=lambda spec: (
                spec.scaling.gpu_budget is None or spec.scaling.gpu_budget >= spec.minimum_gpus()
            ),
            field=".scaling.gpuBudget",
        ),
        Rule(
            expression=(
                "!has(self.scaling.scaleToZeroAfter)"
                " || (self.prefill.management == 'Managed' && self.decode.management == 'Managed')"
            ),
            message=(
                "scaling.scaleToZeroAfter needs both roles, since they go to zero together; leave"
                " it out, or write management: Managed for prefill and decode"
            ),
            holds=lambda spec: (
                spec.scaling.scale_to_zero_after is None
                or spec.prefill.management is spec.decode.management is Management.MANAGED
            ),
            field=".scaling.scaleToZeroAfter",
        ),
        Rule(
            expression=f"{_SCHEDULES} {_SCHEDULED_BOUNDS})",
            message=(
                "scaling.schedules: minReplicas must be up to maxReplicas of a Managed role; write"
                " such a number, or leave the role out"
            ),
            holds=lambda spec: all(
                fleet.management is Management.MANAGED and count <= fleet.max_replicas
                for each in spec.scaling.schedules or ()
                for role, count in each.floors.items()
                for fleet in (spec.fleets[role],)
            ),
            field=".scaling.schedules",
        ),
        Rule(
            expression=(
                f"!has(self.scaling.gpuBudget) || {_SCHEDULES} {_SCHEDULED_GPUS}"
                " <= self.scaling.gpuBudget)"
            ),
            message=(
                "scaling.gpuBudget must cover minReplicas x gpusPerReplica in each of"
                " scaling.schedules; write at least that sum, or lower minReplicas"
            ),
            holds=lambda spec: (
                spec.scaling.gpu_budget is None
                or all(
                    spec.scaling.gpu_budget >= spec.minimum_gpus(each.floors)
                    for each in spec.scaling.schedules or ()
                )
            ),
            field=".scaling.gpuBudget",
        ),
        Rule(
            expression=(
                "!has(self.slo.classes) || self.slo.classes.all(c, !has(c.models)"
                " || c.models.all(m, m == self.model.name"
                " || (has(self.model.aliases) && m in self.model.aliases)))"
            ),
            message=(
                "slo.classes.models must be names of the pool; write model.name or one of"
                " model.aliases"
            ),
            holds=lambda spec: all(
                name in spec.model.names
                for each in spec.slo.classes or ()
                for name in each.models or ()
            ),
            field=".slo.classes",
        ),
        Rule(
            expression=(
                "self.engine.device != 'CPU'"
                " || !(has(self.prefill.gpusPerReplica) || has(self.decode.gpusPerReplica))"
            ),
            message=(
                "gpusPerReplica has no meaning with engine.device CPU; leave it out of prefill and"
                " decode, or write engine.device: NVIDIA"
            ),
            holds=lambda spec: (
                spec.engine.device is not Device.CPU
                or spec.prefill.gpus_per_replica is None is spec.decode.gpus_per_replica
            ),
        ),
        Rule(
            expression="self.engine.device != 'CPU' || !has(self.engine.accelerator)",
            message=(
                "engine.accelerator has no meaning with engine.device CPU; leave it out, or write"
                " engine.device: NVIDIA"
            ),
            holds=lambda spec: (
                spec.engine.device is not Device.CPU or spec.engine.accelerator is None
            ),
            field=".engine.accelerator",
        ),
        Rule(
            expression=(
                f"{_NO_RESOURCE} || self.engine.device == 'CPU'"
                f" || {_RESOURCE}.startsWith(self.engine.device.lowerAscii())"
            ),
            message=(
                "engine.accelerator.resource must be of engine.device; write nvidia.com/gpu with"
                " device: NVIDIA, or amd.com/gpu with device: AMD"
            ),
            holds=lambda spec: (
                spec.engine.gpu_resource is None
                or spec.engine.gpu_resource.startswith(spec.engine.device.lower())
            ),
            field=".engine.accelerator.resource",
        ),
        Rule(
            expression=(
                f"{_NO_RESOURCE} || !{_RESOURCE}.matches('/mig-|[.]shared$')"
                f" || ({_GPUS['prefill']} == 1 && {_GPUS['decode']} == 1)"
            ),
            message=(
                "engine.accelerator.resource is part of a GPU, and an engine cannot join parts;"
                " write gpusPerReplica: 1 for both roles, or resource: nvidia.com/gpu"
            ),
            holds=lambda spec: (
                spec.engine.gpu_part is None or spec.prefill.gpus == spec.decode.gpus == 1
            ),
            field=".engine.accelerator.resource",
        ),
        Rule(
            expression=(
                f"{_NO_CLAIM}"
                " || (has(self.prefill.gpusPerReplica) && has(self.decode.gpusPerReplica))"
            ),
            message=(
                "gpusPerReplica is needed with a ResourceClaimTemplate, which may hold any number"
                " of GPUs; write gpusPerReplica: 1 for both roles"
            ),
            holds=lambda spec: (
                spec.engine.claim_template is None
                or None not in (spec.prefill.gpus_per_replica, spec.decode.gpus_per_replica)
            ),
        ),
        Rule(
            expression=(
                f"{_GPUS['prefill']} % {_GPUS['decode']} == 0"
                f" || {_GPUS['decode']} % {_GPUS['prefill']} == 0"
            ),
            message=(
                "decode.gpusPerReplica must be a multiple or a divisor of prefill.gpusPerReplica,"
                " since vLLM cannot move KV blocks otherwise; write the same number for both"
            ),
            holds=lambda spec: (
                0 in (spec.prefill.gpus % spec.decode.gpus, spec.decode.gpus % spec.prefill.gpus)
            ),
            field=".decode.gpusPerReplica",
        ),
    )

    def minimum_gpus(self, floors: Mapping[str, int] = MappingProxyType({})) -> int:
        """GPUs (units on CPU) of both fleets at their smallest, above the floors of a schedule."""
        return sum(
            max(fleet.min_replicas, floors.get(role, 0)) * fleet.gpus
            for role, fleet in self.fleets.items()
        )

    @property
    def fleets(self) -> Mapping[str, Fleet]:
        """The two fleets by the name of their role."""
        return {"prefill": self.prefill, "decode": self.decode}

    def engine_of(self, role: str) -> Engine:
        """The engine settings of a role: `engine`, with the role's own values."""
        return self.engine.with_own(self.fleets[role].engine)


class PoolMetadata(ApiModel):
    """The part of the object's metadata that Tandem reads."""

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None


class InferencePool(ApiModel):
    """A pool: one model, served by a prefill and a decode fleet behind one endpoint."""

    metadata: PoolMetadata
    spec: PoolSpec

    rules: ClassVar = (
        Rule(
            expression=f"size(self.metadata.name) <= {MAX_NAME_LENGTH}",
            message=(
                f"metadata.name must be at most {MAX_NAME_LENGTH} characters, since the names of"
                " the pool's Services and Deployments begin with it; write for example chat-8b"
            ),
            holds=lambda pool: len(pool.metadata.name) <= MAX_NAME_LENGTH,
        ),
        Rule(
            expression=f"self.metadata.name.matches('{_SERVICE_NAME}')",
            message=(
                "metadata.name must begin with a letter and hold only lower-case letters, digits"
                " and '-', since Services are named after it; write for example llama-3-1-8b"
            ),
            holds=lambda pool: re.fullmatch(_SERVICE_NAME, pool.metadata.name) is not None,
        ),
    )
