"""What requests wait for in the router: decode pods that hold them back, or a pool that wakes."""

from collections.abc import Iterable

from tandem_operator.sim.cluster.clock import BusyTime
from tandem_operator.sim.flight import SimulatedFlight
from tandem_routing.time_shares import hold_for_wake_s


class Waits:
    """The causes of each request's wait, and how long each cause lasted.

    Attributes:
        wake_s: how long a wake takes, as the operator told; `None`: nothing would wake the pool.
    """

    def __init__(self) -> None:
        self.wake_s: float | None = None
        self._held = BusyTime()
        self._at_zero = BusyTime()

    def hold(self, *, on: bool, now_s: float) -> None:
        """Decode pods are what the next one waits for from now on, or no more."""
        self._held.turn(on=on, now_s=now_s)

    def at_zero(self, *, none_is_there: bool, serves: bool, now_s: float) -> bool:
        """See whether there is no pod at all; that lasts until it `serves`. True: it is over."""
        over = serves and self._at_zero.running
        if serves:
            self._at_zero.turn(on=False, now_s=now_s)
        elif none_is_there:
            self._at_zero.turn(on=self.wake_s is not None, now_s=now_s)
        return over

    def begin(
        self, flight: SimulatedFlight, *, first_token_s: float | None, now_s: float
    ) -> float | None:
        """Let a request wait; return how long a first token may take, `None`: for ever.

        One that finds the pool at zero is held for as long as a wake is known to take.
        """
        flight.held_s = -self._held.total_s(now_s)
        flight.wake_s = -self._at_zero.total_s(now_s)
        if first_token_s is not None and flight.slo_class is not None:
            bound_s = flight.slo_class.slo.ttft_bound_s(flight.request.prompt_tokens)
            first_token_s = max(first_token_s, bound_s)
        if not self._at_zero.running or self.wake_s is None:
            return first_token_s
        flight.given_s = self.wake_s
        flight.deadline_s += self.wake_s
        return None if first_token_s is None else first_token_s + hold_for_wake_s(self.wake_s)

    def end(self, flight: SimulatedFlight, *, now_s: float) -> None:
        """Let a request wait no more."""
        flight.held_s += self._held.total_s(now_s)
        flight.wake_s += self._at_zero.total_s(now_s)

    def mostly_held(
        self, flights: Iterable[SimulatedFlight], *, now_s: float
    ) -> list[SimulatedFlight]:
        """Return those of them that decode pods held back for most of their wait."""
        held_s = self._held.total_s(now_s)
        return [
            flight
            for flight in flights
            if flight.guaranteed and held_s + flight.held_s > 0.5 * (now_s - flight.request.at_s)
        ]
