"""PoolRole: the `/scale` target of an External role of a pool. Tandem makes it and keeps it."""

from typing import Annotated

from pydantic import Field

from tandem_operator.api.rules import ApiModel, ListMap
from tandem_operator.api.v1alpha1.status import Condition
from tandem_operator.api.values import Count

EFFECTIVE = "Effective"
"""The condition that says whether the fleet gets `spec.replicas`."""


class PoolRoleSpec(ApiModel):
    """The count that the owner of the role asks for."""

    replicas: Annotated[Count, Field(ge=0, le=2_147_483_647)] | None = None
    """Replicas that an autoscaler or a person asks for, usually through /scale. Tandem gives them
    to the fleet, inside minReplicas, maxReplicas and gpuBudget of the pool. Until another client
    sets this field, it follows the Deployment."""


class RoleCondition(Condition):
    """One aspect of the role, as in any Kubernetes object."""

    type: Annotated[str, Field(max_length=64)]
    """Effective."""


class PoolRoleStatus(ApiModel):
    """The present fleet, and Tandem's recommendation."""

    observed_generation: int | None = None
    """metadata.generation that the status describes."""
    replicas: int | None = None
    """Pods of the fleet, Ready or not."""
    recommended: int | None = None
    """Replicas that Tandem would set if the role were Managed."""
    selector: Annotated[str, Field(max_length=256)] | None = None
    """Label selector of the fleet's pods, for autoscalers."""
    conditions: (
        Annotated[
            list[RoleCondition],
            Field(max_length=8),
            ListMap("type"),
        ]
        | None
    ) = None
    """Effective says whether the fleet gets the replicas that spec asks for, and why not."""

    def condition(self, kind: str) -> RoleCondition | None:
        """The condition of that type, if it was ever written."""
        return next((each for each in self.conditions or () if each.type == kind), None)


class PoolRole(ApiModel):
    """A role of an InferencePool as a scale target of autoscalers and kubectl scale.

    It exists while management of the role is External. Tandem makes it.
    """

    spec: PoolRoleSpec = PoolRoleSpec()
    """The count that the owner of the role asks for."""
    status: PoolRoleStatus = PoolRoleStatus()
    """The present fleet, and Tandem's recommendation."""
