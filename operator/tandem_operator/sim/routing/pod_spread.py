"""Which pod a request goes to by the rules that the live router is compared with."""

from hashlib import blake2b
from random import Random
from typing import TypeVar

from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.routing.pod_sides import DecodeSide, PrefillSide
from tandem_operator.sim.routing.router_queue import Spread
from tandem_routing.pod_choice import least_loaded

HASHED_BLOCKS = 2

S = TypeVar("S", PrefillSide, DecodeSide)


class PodSpread:
    """Chooses among pods by a rule, and remembers whose turn it is."""

    def __init__(self, rule: Spread) -> None:
        self._rule = rule
        self._last: dict[str, int] = {}
        self._random = Random(0)

    def prefill(self, room: list[PrefillSide], flight: SimulatedFlight) -> PrefillSide | None:
        """The one of `room` by a rule that the live router does not have; `None`: by its own."""
        match self._rule:
            case Spread.ROUND_ROBIN:
                return self._in_turn(room, "prefill")
            case Spread.RANDOM:
                return self._random.choice(room)
            case Spread.HASHED:
                key = repr(flight.request.blocks[:HASHED_BLOCKS] or flight.number)
                return max(room, key=lambda side: blake2b(f"{key} {side.name}".encode()).digest())
        return None

    def decode(self, sides: list[DecodeSide]) -> DecodeSide:
        """The one of `sides` for a request that is prefilled, or that goes there whole."""
        # A pod that computes a prompt makes no first token until that is done.
        sides = [side for side in sides if not side.stalls.computing] or sides
        in_turn = self._rule is Spread.ROUND_ROBIN
        return (None if in_turn else least_loaded(sides)) or self._in_turn(sides, "decode")

    def _in_turn(self, sides: list[S], role: str) -> S:
        last = self._last.get(role, -1)
        chosen = min(sides, key=lambda side: (side.pod.index <= last, side.pod.index))
        self._last[role] = chosen.pod.index
        return chosen
