"""The place of a class in the order of the queue, and what its tenants were served."""

from dataclasses import dataclass
from typing import Protocol

from tandem_routing.fair_queue import Owned
from tandem_routing.tenant_shares import Tenant, TenantShares


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """The place of a class in the order; the smallest rank goes first."""

    best_effort: bool = False
    behind: int = 0

    @classmethod
    def of(cls, *, guaranteed: bool, priority: int) -> "Rank":
        """Return the rank of a class; the highest `priority` goes first."""
        return cls(not guaranteed, -priority)


FIRST = Rank()
"""The rank of all requests if there are no classes."""


class Ranked(Owned, Protocol):
    """A waiting request with the rank of its class."""

    @property
    def rank(self) -> Rank:
        """Return the rank."""

    @property
    def entered_s(self) -> float:
        """Return the time of arrival, or of the end of the wake that it waited for."""


class RankedShares:
    """What tenants were served, rank by rank: nothing is owed between classes."""

    def __init__(self) -> None:
        self._shares: dict[Rank, TenantShares] = {}

    def of(self, rank: Rank) -> TenantShares:
        """Return what the tenants of a rank were served."""
        shares = self._shares.get(rank)
        if shares is None:
            shares = self._shares[rank] = TenantShares()
        return shares

    def settle(self, rank: Rank, tenant: Tenant, *, counted: int, used: int) -> None:
        """Replace the tokens that were counted for a request by those that it used."""
        if counted != used:
            self.of(rank).correct(tenant, used - counted)
