"""Which tenant a request is of, and whether the tenant may ask for it now.

Names that clients choose are hashed, so that each takes as little room as any other.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tandem_contracts.router_settings import (
    OTHER_TENANTS,
    RouterSettings,
    TenantSettings,
    TenantsSettings,
)
from tandem_engine.router.accounting.ledger import Ledger
from tandem_engine.router.accounting.router_metrics import RouterMetrics
from tandem_engine.router.forwarding.flight import Flight
from tandem_engine.router.http.intake import digest_of
from tandem_engine.router.openai.errors import ApiError, too_busy
from tandem_engine.router.peers.spent import Spending, Spent
from tandem_routing.tenant_limits import TenantLimit, TenantLimits
from tandem_routing.tenant_shares import NO_TENANT, Tenant


@dataclass(frozen=True, slots=True)
class KnownTenant:
    """The tenant of a request.

    Attributes:
        label: its name in metrics and reports.
    """

    tenant: Tenant
    limit: TenantLimit
    label: str = OTHER_TENANTS


def client_of(
    headers: Mapping[str, str], settings: RouterSettings, *, credentials: str | None
) -> KnownTenant | None:
    """Return the tenant of a request; `None`: the pool has no tenants.

    The header decides, then the API key. All requests without both are of one tenant.
    """
    tenants = settings.tenants
    if tenants is None:
        return None
    told = None if tenants.header is None else headers.get(tenants.header)
    if told:
        named = next((each for each in tenants.named if each.name == told), None)
        return _other(tenants, "header:" + told) if named is None else _named(named)
    key = digest_of(credentials)
    if key is None:
        return _other(tenants, "")
    named = next((each for each in tenants.named if key in each.keys), None)
    return _other(tenants, key) if named is None else _named(named)


def _named(each: TenantSettings) -> KnownTenant:
    return KnownTenant(Tenant(each.name, each.weight), _limit(each), each.name)


def _other(tenants: TenantsSettings, told: str) -> KnownTenant:
    limit = _limit(tenants)
    if not told or tenants.others == "shared":
        return KnownTenant(NO_TENANT, limit)
    # No name of the pool holds a colon.
    name = "other:" + hashlib.sha256(told.encode(errors="surrogateescape")).hexdigest()[:32]
    return KnownTenant(Tenant(name), limit)


class TenantDesk:
    """Refuses requests of tenants beyond their limits, which hold for all routers together.

    Attributes:
        spending: what tenants asked for here, for the other routers.
    """

    def __init__(
        self, *, ledger: Ledger, metrics: RouterMetrics, clock: Callable[[], float]
    ) -> None:
        self._ledger = ledger
        self._metrics = metrics
        self._clock = clock
        self._limits = TenantLimits()
        self.spending = Spending()

    def admit(self, client: KnownTenant, *, tokens: int) -> None:
        """Count a request with the tokens that are expected of it, or raise `ApiError`."""
        refusal = self._limits.ask(
            client.tenant.name, client.limit, tokens=tokens, now=self._clock()
        )
        if refusal is None:
            if not client.limit.unlimited:
                self.spending.add(client.tenant.name, requests=1, tokens=tokens)
            return
        self._metrics.tenant_refused.labels(client.label, refusal.what.value).inc()
        self._ledger.limit_tenant(client.label)
        raise _too_much(
            f"This tenant has reached its limit of {refusal.limit} {refusal.what.value} a minute;"
            f" try again after {refusal.retry_after_s} s.",
            retry_after_s=refusal.retry_after_s,
        )

    def ended(self, client: KnownTenant, flight: Flight, *, counted: int) -> None:
        """Count a request that ended by the tokens that it used."""
        used = flight.used_tokens
        output_tokens = min(flight.output_tokens, used)
        more = self._limits.settle(
            client.tenant.name,
            client.limit,
            counted=counted,
            used=used,
            since_s=flight.timeline.received_s,
            now=self._clock(),
        )
        if more:
            self.spending.add(client.tenant.name, requests=0, tokens=more)
        for kind, tokens in (("prompt", used - output_tokens), ("output", output_tokens)):
            self._metrics.tenant_tokens.labels(client.label, kind).inc(tokens)

    def hear(self, spent: Iterable[Spent], tenants: TenantsSettings | None) -> None:
        """Count what tenants asked for at other routers."""
        if tenants is None:
            return
        limits = {each.name: _limit(each) for each in tenants.named}
        others, now = _limit(tenants), self._clock()
        for each in spent:
            self._limits.hear(
                each.tenant,
                limits.get(each.tenant, others),
                requests=each.requests,
                tokens=each.tokens,
                now=now,
            )


def _limit(given: TenantSettings | TenantsSettings) -> TenantLimit:
    return TenantLimit(given.requests_per_minute, given.tokens_per_minute)


def _too_much(message: str, *, retry_after_s: int) -> ApiError:
    return too_busy(message, code="rate_limit_exceeded", retry_after_s=retry_after_s)
