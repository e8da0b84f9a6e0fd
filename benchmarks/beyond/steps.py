"""The ladder: from replica counts alone, one ability at a time, to all of them together."""

from dataclasses import dataclass, replace

from benchmarks.other_routers import tuning_for
from benchmarks.simulator.__main__ import REPLAY_ROUTER
from tandem_operator.api import PrefillOverflow, Router
from tandem_operator.cli.input.case import router_of
from tandem_operator.core.spec import Insurance
from tandem_operator.core.tuning.tuning import Tuning
from tandem_operator.sim.routing.router_queue import Order, QueueSettings, Spread
from tandem_operator.workloads.pool_spec import insurance_of

# One request under way at a prefill pod and one that goes on at once: the rest waits where it can
# still be put in order.
AT_A_POD = 2
OBJECTIVE = 0.95

DEADLINE = QueueSettings(
    Order.DEADLINE, requests_per_prefill_pod=AT_A_POD, overflow=False, decode_gate=False
)
FIFO = replace(DEADLINE, order=Order.FIFO)
OVERFLOW = replace(FIFO, overflow=True)
BOTH = replace(DEADLINE, overflow=True)
GOODPUT = replace(BOTH, order=Order.GOODPUT)
ALL = replace(GOODPUT, decode_gate=True)
LIVE = router_of(Router())

NOTHING = Insurance()
COUNTED = insurance_of(Router())
WITHOUT = Router(prefill_overflow=PrefillOverflow.NEVER)


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the table.

    Attributes:
        insurance: the effects that sizing may count on; by default nothing, as live.
        clairvoyant: whether the fixed rule that knows every arrival sizes the fleet, not the core.
    """

    what: str
    router: QueueSettings
    insurance: Insurance = NOTHING
    objective: float = OBJECTIVE
    clairvoyant: bool = False

    @property
    def tuning(self) -> Tuning:
        """Return the core's numbers for the router in front."""
        return tuning_for(
            in_turn=self.router.spread is Spread.ROUND_ROBIN,
            deadline_order=self.insurance != NOTHING,
        )


STEPS: dict[str, Step] = {
    "bound": Step("clairvoyant, queues at the engines", REPLAY_ROUTER, clairvoyant=True),
    "bound-all": Step("clairvoyant, router as in `gate`", ALL, clairvoyant=True),
    "live": Step("the router and the sizing that run live", LIVE, COUNTED),
    "never": Step("`live`, `prefillOverflow: Never`", router_of(WITHOUT), insurance_of(WITHOUT)),
    "engines": Step("core, queues at the engines, first come first served", REPLAY_ROUTER),
    "fifo": Step("one queue in front, first come first served", FIFO),
    "deadline": Step("`fifo` + deadline order", DEADLINE),
    "overflow": Step("`fifo` + overflow", OVERFLOW),
    "both": Step("`deadline` + overflow", BOTH),
    "longest": Step("`both` + the longest give way", GOODPUT),
    "gate": Step("`longest` + decode gate", ALL),
    "counted": Step("`gate` + sizing counts on it", ALL, COUNTED),
}
