"""`spec.router.tenants`: the clients of a pool, their shares of the service and their limits."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tandem_operator.api.rules import ApiModel, ListMap
from tandem_operator.api.values import Count, digest_rule, text_rule

_PerMinute = Annotated[Count, Field(ge=1, le=1_000_000_000)]


class NamedTenant(ApiModel):
    """A tenant with its own weight, limits and metrics."""

    name: Annotated[
        str,
        Field(max_length=63),
        text_rule(
            pattern="^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
            never="^other$",
            message=(
                "tenants.named.name must be letters, digits, '-', '_' and '.', and not other;"
                " write for example team-search"
            ),
        ),
    ]
    """Name of the tenant in metrics, and in the header if there is one."""
    keys: (
        Annotated[
            list[
                Annotated[
                    str,
                    Field(max_length=71),
                    digest_rule(name="tenants.named.keys"),
                ]
            ],
            Field(max_length=8),
        ]
        | None
    ) = None
    """Digests of the tenant's API keys. A request with one of them belongs to this tenant, unless
    the header names another."""
    weight: Annotated[Count, Field(ge=1, le=1000)] = 1
    """Part of the service, relative to other tenants, while not all requests can be on time.
    Tenants that are not named have 1."""
    requests_per_minute: _PerMinute | None = None
    """Most requests in a minute, at all router pods together. Without it: any number."""
    tokens_per_minute: _PerMinute | None = None
    """Most prompt and output tokens in a minute, at all router pods together. Without it: any
    number."""


class OtherTenants(StrEnum):
    """Treatment of tenants that the pool does not name."""

    SEPARATE = "Separate"
    SHARED = "Shared"


class Tenants(ApiModel):
    """Clients that share the service of a class fairly, by tokens. An edit restarts nothing."""

    header: (
        Annotated[
            str,
            Field(max_length=64),
            text_rule(
                pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$",
                message="tenants.header must be the name of a request header; write X-Tenant-Id",
            ),
        ]
        | None
    ) = None
    """Request header that names the tenant. Use it only behind a gateway that sets it, because
    routers believe it. A request without it belongs to the tenant of its API key."""
    named: (
        Annotated[
            list[NamedTenant],
            Field(max_length=64),
            ListMap("name"),
        ]
        | None
    ) = None
    """Tenants with their own weight, limits and metrics."""
    others: OtherTenants = OtherTenants.SEPARATE
    """Treatment of tenants that are not named. Separate: each header value or API key is a tenant
    with its own share and limits. Shared: all of them are one tenant. Use Shared if clients can
    invent keys."""
    requests_per_minute: _PerMinute | None = None
    """Most requests in a minute of each tenant that is not named. Without it: any number."""
    tokens_per_minute: _PerMinute | None = None
    """Most prompt and output tokens in a minute of each tenant that is not named."""
