"""The tenants of a pool and of its traffic, as far as a simulation can show them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tandem_contracts.router_settings import OTHER_TENANTS
from tandem_operator.api import InferencePool, NamedTenant, OtherTenants, Tenants
from tandem_operator.cli.command_errors import BadInputError
from tandem_operator.sim.routing.router_queue import QueueSettings
from tandem_operator.sim.routing.tenant_rules import NO_LIMIT, TenantRules, admitted, named_tenant
from tandem_operator.sim.traces.trace import Trace
from tandem_routing.tenant_limits import TenantLimit


def rules_of(given: Tenants | None) -> TenantRules | None:
    """Return the shares and limits of `spec.router.tenants`."""
    if given is None:
        return None
    are_one = given.others is OtherTenants.SHARED
    named = {
        each.name: named_tenant(each.name, weight=each.weight, limit=_limit_of(each))
        for each in given.named or ()
    }
    if not are_one:
        # Routers call all tenants so that the pool does not name: no limit holds for them together.
        named[OTHER_TENANTS] = named_tenant(OTHER_TENANTS)
    return TenantRules(named=named, others=_limit_of(given), others_are_one=are_one)


def _limit_of(given: Tenants | NamedTenant) -> TenantLimit:
    return TenantLimit(given.requests_per_minute, given.tokens_per_minute)


def serving(router: QueueSettings, trace: Trace) -> QueueSettings:
    """Return the router for a traffic; tenants that it does not name have no share and no limit.

    Else all of the traffic would be of one tenant, and most of it beyond this tenant's limit.
    """
    return router if names_tenants(trace) else replace(router, tenants=None)


def names_tenants(trace: Trace) -> bool:
    """Return whether any request names a tenant."""
    return any(request.tenant for request in trace.requests)


def within_limits(trace: Trace, router: QueueSettings) -> Trace:
    """Return the traffic without the requests beyond limits of tenants, by their true tokens."""
    if router.tenants is None:
        return trace
    return replace(trace, requests=tuple(admitted(trace.requests, router.tenants)))


def notes_on_tenants(pool: InferencePool, trace: Trace) -> Iterator[str]:
    """Yield what a simulation does not show of tenants, in sentences."""
    tenants, named = pool.spec.router.tenants, names_tenants(trace)
    if tenants is not None and not named:
        example = next((each.name for each in tenants.named or ()), "search")
        yield (
            "The traffic names no tenant, so shares and limits of router.tenants are not simulated;"
            f" name tenants with --tenant {example}=0.2."
        )
    if tenants is not None and _others_are_lost(tenants, trace):
        yield (
            "The traffic does not tell tenants apart that the pool does not name, so their limits"
            " are not simulated."
        )
    if tenants is None and named:
        yield "The pool has no router.tenants, so all tenants are served alike."


def _others_are_lost(tenants: Tenants, trace: Trace) -> bool:
    limited = tenants.others is OtherTenants.SEPARATE and _limit_of(tenants) != NO_LIMIT
    return limited and any(request.tenant == OTHER_TENANTS for request in trace.requests)


def check_tenants(shares: Sequence[str] | None, pools: Sequence[InferencePool]) -> None:
    """Refuse shares of tenants that no pool has.

    Raises:
        BadInputError: no pool has tenants.
    """
    if shares and all(pool.spec.router.tenants is None for pool in pools):
        raise BadInputError(
            "--tenant names tenants, but the pool has no spec.router.tenants; write for example"
            " tenants: {header: X-Tenant-Id}"
        )
