"""A request that waits, as the router's queues see it, without anything else of a router."""

from dataclasses import dataclass

from tandem_routing.class_queue import ClassQueue
from tandem_routing.deadline_queue import Expected
from tandem_routing.rank import FIRST, Rank
from tandem_routing.tenant_shares import NO_TENANT, Tenant


@dataclass(eq=False)
class Waiter:
    """A request that waits."""

    name: str
    deadline_s: float
    rank: Rank = FIRST
    service_s: float = 1.0
    tokens: int = 10
    tenant: Tenant = NO_TENANT
    entered_s: float = 0.0
    split: bool = True
    settled: bool = False

    def expects(self) -> Expected:
        return Expected(service_s=self.service_s)


def queue_of(*waiters: Waiter) -> ClassQueue[Waiter]:
    queue: ClassQueue[Waiter] = ClassQueue()
    for waiter in waiters:
        queue.add(waiter)
    return queue
