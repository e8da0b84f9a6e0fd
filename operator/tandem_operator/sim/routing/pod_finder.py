"""Finds the pods of one request, as the live router does: by what it knows of them."""

from collections.abc import Callable, Iterable, Sequence

from tandem_operator.sim.cluster.clock import Clock
from tandem_operator.sim.routing.legs import settled
from tandem_operator.sim.routing.pod_sides import REVISION, DecodeSide, PrefillSide
from tandem_operator.sim.routing.router_queue import QueuedFlight, QueueSettings
from tandem_operator.sim.routing.router_view import RouterView
from tandem_routing.best_effort import WithReserve
from tandem_routing.deadline_queue import Turn
from tandem_routing.outstanding import NO_LOAD, Load
from tandem_routing.overflow import helped, helped_spare, spare
from tandem_routing.pairing import Gate, bearing, pair
from tandem_routing.prefix_placement import ToCompute

Whole = tuple[Turn[QueuedFlight], DecodeSide]
"""A request, and the decode pod that has slack for all of it."""


class SimulatedPodFinder:
    """Chooses among pods; `catch_up` brings decode pods to the present."""

    def __init__(
        self,
        settings: QueueSettings,
        *,
        view: RouterView,
        clock: Clock,
        catch_up: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._view = view
        self._clock = clock
        self._catch_up = catch_up
        self._room = settings.room()

    def room_for(self, prompt_tokens: int, prefill: list[PrefillSide]) -> list[PrefillSide]:
        """Those that take one more prompt."""
        if self._room is None:
            return prefill
        return self._room.at(prefill, prompt_tokens=prompt_tokens)

    def find(
        self,
        turn: Turn[QueuedFlight],
        room: list[PrefillSide],
        decode: list[DecodeSide],
        *,
        late: bool,
        reserve: Load = NO_LOAD,
    ) -> tuple[PrefillSide | None, bool]:
        """The one of `room` to go to, if any is given, and whether decode bears the request."""
        found = self._found(turn, room, decode, late=late, reserve=reserve)
        if not found[1] and self._settings.decode_gate:
            # Streams have ended since a pod was last looked at: only then is that worth a look.
            self._catch_up()
            found = self._found(turn, room, decode, late=late, reserve=reserve)
        return found

    def helped(
        self, excess: Sequence[Turn[QueuedFlight]], decode: list[DecodeSide]
    ) -> Whole | None:
        """One of these that a decode pod has slack for."""
        pace, tpot_s, now_s = self._view.pace, self._view.tpot_s, self._clock.now_s
        if pace is None:
            return None
        sides = spare(settled(decode), pace, now=now_s, tpot_s=tpot_s)
        return helped(excess, sides, pace, now=now_s, tpot_s=tpot_s) if sides else None

    def helped_spare(
        self, waiters: Iterable[QueuedFlight], decode: list[DecodeSide]
    ) -> Whole | None:
        """The best effort out of these that a decode pod has slack for."""
        pace, now_s = self._view.pace, self._clock.now_s
        if pace is None or not self._settings.overflow:
            return None
        self._catch_up()
        return helped_spare(
            waiters,
            settled(decode),
            pace,
            reserve=self._view.guaranteed.missing(now_s),
            now=now_s,
            tpot_s=self._view.tpot_s,
        )

    def _found(
        self,
        turn: Turn[QueuedFlight],
        room: list[PrefillSide],
        decode: list[DecodeSide],
        *,
        late: bool,
        reserve: Load,
    ) -> tuple[PrefillSide | None, bool]:
        view, load = self._view, turn.decode_load
        gate = Gate(
            view.pace if self._settings.decode_gate else None,
            tpot_s=view.tpot_s,
            late=late,
            now=self._clock.now_s,
        )
        pods = {REVISION: settled(decode)}
        coming = view if reserve == NO_LOAD else WithReserve(view, reserve)
        if not room:
            return None, bool(bearing(load, pods, coming=coming, gate=gate))
        memory = view.memory_of(turn.waiter.flight)
        prompt = ToCompute(turn.waiter.tokens, turn.expected, memory)
        side = pair(load, room, pods, prompt=prompt, coming=coming, gate=gate)
        return side, side is not None
