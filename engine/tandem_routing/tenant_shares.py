"""What each tenant of a class was served, in tokens per weight; the least served goes first.

This is a virtual token counter (Sheng et al., "Fairness in Serving Large Language Models", OSDI
2024). A tenant that was idle begins where the least served of those that wait is. So it gains
nothing from its idle time.
"""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass

MOST_TENANTS = 4096
"""Tenants that are remembered; the one that was served least recently is forgotten first."""
AHEAD_REQUESTS = 16
"""Mean requests by which a tenant may be ahead of late requests of another one."""
# The weight of the last request in the mean size of requests.
_NEWEST = 0.05


@dataclass(frozen=True, slots=True)
class Tenant:
    """A client, or several, that share one part of the service.

    Attributes:
        name: empty for all requests that name none.
        weight: its part of the service, relative to the others.
    """

    name: str = ""
    weight: float = 1.0


NO_TENANT = Tenant()
"""The tenant of all requests if there are no tenants."""


class TenantShares:
    """Counts what tenants of one class were served."""

    def __init__(self) -> None:
        self._served: OrderedDict[str, float] = OrderedDict()
        self._floor = 0.0
        self._mean_tokens = 0.0

    def __len__(self) -> int:
        """Return the number of remembered tenants."""
        return len(self._served)

    @property
    def ahead(self) -> float:
        """Return by how much one tenant may be ahead of another whose requests are late."""
        return AHEAD_REQUESTS * self._mean_tokens

    def served(self, name: str) -> float:
        """Return what a tenant was served, in tokens per weight."""
        return self._served.get(name, self._floor)

    def came(self, name: str) -> None:
        """Let a tenant wait that did not wait before: it begins no further back than the others."""
        self._set(name, max(self.served(name), self._floor))

    def serve(self, tenant: Tenant, tokens: int, *, waiting: Collection[str]) -> None:
        """Count a request that gets its place; `waiting` are the tenants, its own among them."""
        least = min(map(self.served, waiting), default=self._floor)
        self._floor = max(self._floor, least)
        newest = _NEWEST if self._mean_tokens else 1.0
        self._mean_tokens += newest * (tokens - self._mean_tokens)
        self.correct(tenant, tokens)

    def correct(self, tenant: Tenant, tokens: int) -> None:
        """Add tokens that were not expected; a negative number takes some back.

        A lead that was forgiven is not given back once more, so nobody falls behind the floor.
        """
        served = self.served(tenant.name) + tokens / tenant.weight
        self._set(tenant.name, max(served, self._floor))

    def forgive(self, waiting: Collection[str]) -> None:
        """Let all that wait begin anew: all will be on time, so none owes another anything."""
        most = self._floor = max(map(self.served, waiting))
        for name in waiting:
            self._served[name] = most

    def _set(self, name: str, served: float) -> None:
        self._served[name] = served
        self._served.move_to_end(name)
        while len(self._served) > MOST_TENANTS:
            self._served.popitem(last=False)
