"""`spec.router.gateway`: how Gateways of the Gateway API reach the pool's routers.

The CRD checks only the bounds of these fields. workloads/builders/route_names.py finds their other
faults, and such a fault leaves the rest of the pool in force.
"""

from typing import Annotated

from pydantic import Field

from tandem_operator.api.rules import ApiModel
from tandem_operator.api.values import Count

Hostname = Annotated[str, Field(max_length=253)]


class ParentRef(ApiModel):
    """A Gateway."""

    name: Annotated[str, Field(max_length=253)]
    """Name of the Gateway."""
    namespace: Annotated[str, Field(max_length=63)] | None = None
    """Namespace of the Gateway, if not the pool's."""
    section_name: Annotated[str, Field(max_length=253)] | None = None
    """Listener of the Gateway."""
    port: Annotated[Count, Field(ge=1, le=65_535)] | None = None
    """Port of the Gateway."""


class Gateway(ApiModel):
    """Gateways through which clients outside the cluster reach the pool."""

    parent_refs: Annotated[tuple[ParentRef, ...], Field(min_length=1, max_length=8)]
    """Gateways that should serve the pool."""
    hostnames: Annotated[tuple[Hostname, ...], Field(max_length=16)] | None = None
    """Hosts of the route, if not all hosts of the listeners."""
    model_header: Annotated[str, Field(max_length=64)] | None = None
    """Header with a request's `model`, for pools that share a host."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that are named."""
        return self.hostnames or ()
