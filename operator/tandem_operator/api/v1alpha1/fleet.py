"""`spec.prefill` and `spec.decode`: one class for both, and the parts of any pod of a pool."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field

from tandem_operator.api.rules import ApiModel, Rule
from tandem_operator.api.v1alpha1.engine import RoleEngine
from tandem_operator.api.values import Count, PositiveQuantity


class Resources(ApiModel):
    """Compute resources of a container, as in a pod. GPUs come from gpusPerReplica."""

    requests: Annotated[dict[str, PositiveQuantity], Field(max_length=16)] | None = None
    """Resources that the scheduler reserves, such as cpu: 500m and memory: 2Gi."""
    limits: Annotated[dict[str, PositiveQuantity], Field(max_length=16)] | None = None
    """Most resources that the container may use, such as cpu: 500m and memory: 2Gi."""


Labels = Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=64)]
Annotations = Annotated[dict[str, Annotated[str, Field(max_length=16384)]], Field(max_length=64)]


class TemplateMetadata(ApiModel):
    """Labels and annotations for pods."""

    labels: Labels | None = None
    """Labels; Tandem's own take precedence."""
    annotations: Annotations | None = None
    """Annotations; Tandem's own take precedence."""


class PodTemplate(ApiModel):
    """Fields to merge into the pods that Tandem makes.

    Tandem's own fields take precedence, and the pool names each field that they replace.
    """

    metadata: TemplateMetadata | None = None
    """Labels and annotations for the pods."""
    spec: dict[str, Any] | None = None
    """Fields of a Kubernetes PodSpec, such as nodeSelector, tolerations or volumes; containers are
    merged by name (engine, router)."""


class Management(StrEnum):
    """Owner of a fleet's replica count."""

    MANAGED = "Managed"
    EXTERNAL = "External"


class Fleet(ApiModel):
    """One fleet of engine pods, prefill or decode."""

    min_replicas: Annotated[
        Count,
        Field(le=1000),
        Rule(
            expression="self >= 1",
            message=(
                "minReplicas must be at least 1, since every request needs both roles; write 1"
            ),
            holds=lambda count: count >= 1,
        ),
    ] = 1
    """Fewest replicas of this fleet."""
    max_replicas: Annotated[
        Count,
        Field(le=1000),
        Rule(
            expression="self >= 1",
            message="maxReplicas must be at least 1; write for example 4",
            holds=lambda count: count >= 1,
        ),
    ]
    """Most replicas of this fleet."""
    gpus_per_replica: Annotated[Count, Field(ge=1, le=16)] | None = None
    """GPUs of one replica, which is also its tensor parallel size. Without it 1; on CPU leave it
    out: a replica then counts as 1 unit."""
    management: Management = Management.MANAGED
    """Managed: Tandem sets the replica count. External: a HorizontalPodAutoscaler, KEDA or a person
    sets it, through the PoolRole that Tandem then makes. Tandem then only recommends a count."""
    engine: RoleEngine | None = None
    """Engine settings of this role. A field here replaces the same field of spec.engine."""
    resources: Resources = Resources()
    """Compute resources of the engine container."""
    pod_template: PodTemplate | None = None
    """Further fields of the engine pods, such as node selectors or RDMA devices."""

    rules: ClassVar = (
        Rule(
            expression="self.minReplicas <= self.maxReplicas",
            message=(
                "maxReplicas must not be below minReplicas; write for example"
                " minReplicas: 1 and maxReplicas: 4"
            ),
            holds=lambda role: role.min_replicas <= role.max_replicas,
            field=".maxReplicas",
        ),
    )

    @property
    def gpus(self) -> int:
        """GPUs of one replica; 1 unit if replicas hold none."""
        return self.gpus_per_replica or 1
