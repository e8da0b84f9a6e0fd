"""`spec.router.gateway`: how Gateways of the Gateway API reach the pool's routers.

The CRD bounds these fields and no more: workloads/builders/route_names.py says what is wrong with
one, and keeps no other part of the pool from being in force.
"""

from typing import Annotated

from pydantic import Field

from tandem_operator.api.rules import ApiModel
from tandem_operator.api.values import Count

Hostname = Annotated[str, Field(max_length=253)]


class ParentRef(ApiModel):
    """A Gateway."""

    name: Annotated[str, Field(max_length=253)]
    """Its name."""
    namespace: Annotated[str, Field(max_length=63)] | None = None
    """Its namespace, if not the pool's."""
    section_name: Annotated[str, Field(max_length=253)] | None = None
    """Its listener."""
    port: Annotated[Count, Field(ge=1, le=65_535)] | None = None
    """Its port."""


class Gateway(ApiModel):
    """Gateways through which clients outside the cluster reach the pool."""

    parent_refs: Annotated[tuple[ParentRef, ...], Field(min_length=1, max_length=8)]
    """Gateways."""
    hostnames: Annotated[tuple[Hostname, ...], Field(max_length=16)] | None = None
    """Its hosts, if not all of the listeners."""
    model_header: Annotated[str, Field(max_length=64)] | None = None
    """Header with a request's `model`, for pools that share a host."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Those that are named."""
        return self.hostnames or ()
