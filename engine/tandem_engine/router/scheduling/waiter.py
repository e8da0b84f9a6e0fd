"""One request that waits in the router's queue."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tandem_engine.router.scheduling.placement import PrefillPlacement
from tandem_routing.deadline_queue import Expected


@dataclass(slots=True, eq=False)
class Waiter:
    """One request that waits.

    Attributes:
        deadline_s: when its TTFT bound passes.
        expected: asked anew whenever it matters: more is known then.
        split: whether it may use a prefill pod at all.
        entered_s, held_before_s: when it came, and how long decode pods had held requests by then.
    """

    deadline_s: float
    tokens: int
    expected: Callable[[], Expected]
    split: bool
    entered_s: float = 0.0
    held_before_s: float = 0.0
    placed: asyncio.Future[PrefillPlacement] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def settled(self) -> bool:
        """Return whether it waits no more."""
        return self.placed.done()

    def expects(self) -> Expected:
        """Return what is expected of it now."""
        return self.expected()
