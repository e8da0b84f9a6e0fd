"""The tenants of a simulated pool: their shares of the service, and their limits.

One simulated router has all requests, so a limit holds exactly. Live, routers tell each other.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.traces.trace import TraceRequest
from tandem_routing.tenant_limits import TenantLimit, TenantLimits
from tandem_routing.tenant_shares import NO_TENANT, Tenant
from tandem_routing.verdict import Ending

NO_LIMIT = TenantLimit()


@dataclass(frozen=True, slots=True)
class RuledTenant:
    """A tenant, and the most that it may ask for in a minute."""

    tenant: Tenant
    limit: TenantLimit = NO_LIMIT


def named_tenant(name: str, *, weight: float = 1.0, limit: TenantLimit = NO_LIMIT) -> RuledTenant:
    """Return a tenant that a pool names."""
    return RuledTenant(Tenant(name, weight), limit)


@dataclass(frozen=True, slots=True)
class TenantRules:
    """A pool's tenants.

    Attributes:
        named: by name, those with their own weight and limit.
        others: the limit of each tenant that is not named.
        others_are_one: all tenants that are not named are one.
    """

    named: Mapping[str, RuledTenant] = field(default_factory=dict)
    others: TenantLimit = NO_LIMIT
    others_are_one: bool = False

    def of(self, request: TraceRequest) -> RuledTenant:
        """Return the tenant of a request; all requests that name none are of one."""
        known = self.named.get(request.tenant)
        if known is not None:
            return known
        tenant = NO_TENANT if self.others_are_one else Tenant(request.tenant)
        return RuledTenant(tenant, self.others)


class TenantGate:
    """Refuses requests of tenants beyond their limits, as the live router does."""

    def __init__(self, rules: TenantRules) -> None:
        self._rules = rules
        self._limits = TenantLimits()

    def counts_tokens(self, request: TraceRequest) -> bool:
        """Return whether the limit of its tenant depends on the tokens of requests."""
        return self._rules.of(request).limit.tokens is not None

    def admits(self, flight: SimulatedFlight, *, tokens: int, now_s: float) -> bool:
        """Count a request with the tokens that are expected of it; False: it is refused."""
        known = self._rules.of(flight.request)
        flight.asked_tokens = tokens
        name = known.tenant.name
        return self._limits.ask(name, known.limit, tokens=tokens, now=now_s) is None

    def ended(self, flight: SimulatedFlight, *, now_s: float) -> None:
        """Count a request that ended by the tokens that it used."""
        known = self._rules.of(flight.request)
        used = flight.dispatched_s is not None and flight.ending is not Ending.SHED
        self._limits.settle(
            known.tenant.name,
            known.limit,
            counted=flight.asked_tokens,
            used=used * flight.request.prompt_tokens + flight.made,
            since_s=flight.request.at_s,
            now=now_s,
        )


def admitted(requests: Iterable[TraceRequest], rules: TenantRules) -> Iterator[TraceRequest]:
    """Yield the requests that limits let pass if the tokens of each are known in advance."""
    limits = TenantLimits()
    for request in requests:
        known = rules.of(request)
        tokens = request.prompt_tokens + request.output_tokens
        if limits.ask(known.tenant.name, known.limit, tokens=tokens, now=request.at_s) is None:
            yield request
