"""Places best effort when its share of the time is due, or when no guaranteed request needs it."""

from collections.abc import Callable, Sequence

from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.pod import Pod, Role
from tandem_engine.router.scheduling.lines import Lines
from tandem_engine.router.scheduling.placement import DecodeOnly
from tandem_engine.router.scheduling.pod_finder import PodFinder, QueueLook
from tandem_engine.router.scheduling.waiter import Waiter
from tandem_routing.best_effort import Guaranteed
from tandem_routing.deadline_queue import Turn, Unfit, turn_of
from tandem_routing.outstanding import NO_LOAD, Load
from tandem_routing.overflow import helped_spare


class BestEffort:
    """Lets best effort in, beside what guaranteed requests are expected to need.

    Without classes it does nothing. `look_again` lets the queue look again in a moment, because
    time alone can change the result.
    """

    def __init__(
        self,
        *,
        lines: Lines,
        guaranteed: Guaranteed,
        fleet: EnginePods,
        finder: PodFinder,
        place: Callable[[Turn[Waiter], Pod | None, DecodeOnly | None], object],
        place_whole: Callable[[Turn[Waiter], Pod], None],
        clock: Callable[[], float],
        look_again: Callable[[], None],
    ) -> None:
        self._line, self._whole = lines.split, lines.whole
        self._guaranteed = guaranteed
        self._fleet = fleet
        self._finder = finder
        self._place = place
        self._place_whole = place_whole
        self._clock = clock
        self._look_again = look_again

    def came(self, waiter: Waiter) -> None:
        """Record a request of a class that just arrived."""
        if waiter.rank.best_effort or not waiter.split:
            return
        try:
            turn = turn_of(waiter)
        except Unfit:
            # Its own turn in the queue finds that out.
            return
        pods = len(self._fleet.usable(Role.PREFILL))
        self._guaranteed.came(turn, pods=pods, now=self._clock(), wake_s=waiter.wake_s)

    def owed(self, look: QueueLook) -> bool | None:
        """Place overdue best effort whose share of the time has come, before all other requests.

        False: it waits for room, and all others behind it. None: there is none.
        """
        now, line, turn = self._clock(), self._line, None
        if look.prefill or look.alone is not None:
            turn = line.due(pods=max(1, len(look.prefill)), now=now)
        if turn is None:
            line, turn = self._whole, self._whole.due(pods=1, now=now)
        if turn is None:
            return None
        room = look.room(turn.waiter)
        if room == []:
            return False
        placed = self._placed(turn, room or (), look, reserve=NO_LOAD)
        if placed:
            line.took(turn)
        else:
            self._look_again()
        return placed

    def filled(self, look: QueueLook) -> bool:
        """Place best effort if no guaranteed request waits, and none will need the time."""
        if not (self._line.spares or self._whole.spares):
            return False
        now = self._clock()
        reserve = self._guaranteed.missing(now)
        need = self._guaranteed.need(now, pods=len(look.prefill))
        pace = look.settings.decode
        routers = 1 if pace is None else pace.routers
        for line in (self._line, self._whole):
            for waiter in line.spare():
                room = look.room(waiter)
                if room == []:
                    continue
                turn = turn_of(waiter)
                if room:
                    room = need.leaves(turn, look.prefill, room, routers=routers, now=now)
                    if not room:
                        continue
                if self._placed(turn, room or (), look, reserve=reserve):
                    return True
                break
        if look.prefill and self._overflowed(look, reserve):
            return True
        self._look_again()
        return False

    def _placed(
        self, turn: Turn[Waiter], room: Sequence[Pod], look: QueueLook, *, reserve: Load
    ) -> bool:
        """Place one if decode pods bear it, and the `reserve` beside it."""
        chosen, borne = self._finder.find(turn, room, look, late=False, reserve=reserve)
        if borne:
            self._place(turn, chosen, look.reason(turn.waiter))
        return borne

    def _overflowed(self, look: QueueLook, reserve: Load) -> bool:
        """Place one whole at a decode pod that has slack for it, if there is any."""
        pace, pods = look.settings.decode, look.decode_pods
        if pace is None or not pods:
            return False
        found = helped_spare(
            self._line.spare(),
            pods,
            pace,
            reserve=reserve,
            now=self._clock(),
            tpot_s=look.settings.slo.tpot_s,
        )
        if found is not None:
            self._place_whole(*found)
        return found is not None
