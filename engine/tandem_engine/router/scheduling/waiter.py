"""A request that waits in the router's queue."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tandem_engine.router.scheduling.placement import PrefillPlacement
from tandem_routing.deadline_queue import Expected
from tandem_routing.prefix_index import NO_PREFIX, Prefix
from tandem_routing.rank import FIRST, Rank
from tandem_routing.tenant_shares import NO_TENANT, Tenant


@dataclass(slots=True, eq=False)
class Waiter:
    """One waiting request.

    Attributes:
        deadline_s: when its TTFT bound passes, later by `wake_s`.
        expected: returns the present expectation, which becomes more exact with time.
        split: whether it can use a prefill pod at all.
        prefix: the part of its prompt that other requests may share.
        rank: the rank of its class.
        wake_s: the time given to it for a wake, until that is over; no other request may use it.
        slo_class: the name of its class; `None`: there are no classes.
        refuse_late: whether it is refused once it cannot be on time any more.
        tenant: whose share of the service it counts in.
        counted_tokens: the tokens that it was counted with when it got its place.
        entered_s: its arrival, or the end of the wake that it waited for.
        held_before_s: the total time until its arrival for which decode pods had held requests.
    """

    deadline_s: float
    tokens: int
    expected: Callable[[], Expected]
    split: bool
    prefix: Prefix = NO_PREFIX
    rank: Rank = FIRST
    wake_s: float = 0.0
    slo_class: str | None = None
    refuse_late: bool = False
    tenant: Tenant = NO_TENANT
    counted_tokens: int = 0
    entered_s: float = 0.0
    held_before_s: float = 0.0
    placed: asyncio.Future[PrefillPlacement] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def settled(self) -> bool:
        """Return whether it no longer waits."""
        return self.placed.done()

    def expects(self) -> Expected:
        """Return the present expectation."""
        return self.expected()
