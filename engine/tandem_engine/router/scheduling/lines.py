"""Two lines of waiting requests: for a prefill pod, and for a decode pod that takes them whole."""

from collections.abc import Iterable, Sequence

from tandem_engine.router.pods.pod import Pod
from tandem_engine.router.scheduling.waiter import Waiter
from tandem_routing.class_queue import ClassQueue
from tandem_routing.deadline_queue import RECONSIDERED_EVERY_S, Next, Turn
from tandem_routing.rank import RankedShares


class Lines:
    """The waiting requests, each in its line.

    Attributes:
        split: those that may use a prefill pod.
        whole: those that may not.
    """

    def __init__(self, *, now: float) -> None:
        self._shares = RankedShares()
        self.split: ClassQueue[Waiter] = ClassQueue(self._shares)
        self.whole: ClassQueue[Waiter] = ClassQueue(self._shares)
        self._prefill: Sequence[Pod] = ()
        self._reconsidered_s = now

    def add(self, waiter: Waiter) -> None:
        """Let one more wait."""
        self._line_of(waiter).add(waiter)

    def remove(self, waiter: Waiter) -> None:
        """Let one leave, if it is here."""
        self._line_of(waiter).remove(waiter)

    def serve(self, turn: Turn[Waiter]) -> None:
        """Count one in the share of its tenant, and let it leave for its place."""
        waiter = turn.waiter
        waiter.counted_tokens = self._line_of(waiter).serve(turn)
        self.remove(waiter)

    def pass_by(self, turn: Turn[Waiter]) -> None:
        """Count one in the share of its tenant that gets its place without a wait."""
        waiter = turn.waiter
        waiter.counted_tokens = self._line_of(waiter).pass_by(turn)

    def settle(self, waiter: Waiter, *, used_tokens: int) -> None:
        """Count one that has ended by what it used, no more by what was expected of it."""
        self._shares.settle(
            waiter.rank, waiter.tenant, counted=waiter.counted_tokens, used=used_tokens
        )

    def reconsider(self, prefill: Sequence[Pod], now: float) -> None:
        """Ask those found to be late again: other pods are there, or more is known by now."""
        if prefill != self._prefill or now >= self._reconsidered_s + RECONSIDERED_EVERY_S:
            self._prefill, self._reconsidered_s = prefill, now
            self.split.reconsider(now)
            self.whole.reconsider(now)

    def woken(self, waiters: Iterable[Waiter], now: float) -> None:
        """Have requests that waited for a wake be due as if they had come when it was over."""
        for waiter in [each for each in waiters if each.wake_s]:
            self.remove(waiter)
            waiter.deadline_s += now - waiter.entered_s - waiter.wake_s
            waiter.wake_s, waiter.entered_s = 0.0, now
            self.add(waiter)

    def to_shed(self, start_s: float, now: float) -> Waiter | None:
        """Return what is shed first: the last best effort, else what is late.

        Else the newest of the tenant with the longest line; `None`: all are of one tenant.
        `start_s`: when a prefill pod is free. Raises `Unfit` where nothing can be said of one.
        """
        return (
            self.split.last_spare()
            or self.whole.last_spare()
            or self.split.shed(start_s, now=now)
            or self.whole.shed(now, now=now)
            or self.split.newest()
            or self.whole.newest()
        )

    def _line_of(self, waiter: Waiter) -> ClassQueue[Waiter]:
        return self.split if waiter.split else self.whole


def in_order(*found: Next[Waiter]) -> list[tuple[Turn[Waiter], bool]]:
    """Return the first of each line, and whether it is late: the punctual, then the urgent."""
    ready = [(one.late, one.first.waiter.deadline_s, one.first) for one in found if one.first]
    ready.sort(key=lambda entry: entry[:2])
    return [(turn, late) for late, _, turn in ready]
