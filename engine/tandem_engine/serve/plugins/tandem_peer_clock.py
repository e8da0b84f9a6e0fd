"""How far another engine's clock is ahead of this one's, at the most. Pure.

vLLM takes the middle of one round trip of its handshake, once. An engine that was stopped during
it, or clocks that run at different speeds for days, would make leases look longer than they are.
"""

import math
from dataclasses import dataclass

# The most by which the kernel slews a clock that NTP corrects, and more than clocks alone differ.
_MOST_DRIFT = 5e-4
_OLD_S = 300.0
_AGAIN_S = 10.0


@dataclass(slots=True)
class PeerClock:
    """A bound by stamps: what came with an answer was stamped after the question was sent."""

    _ahead_s: float = math.inf
    _learned_s: float = 0.0
    _asked_s: float = -math.inf

    def stamped(self, theirs_s: float, *, sent_s: float) -> None:
        """Take a stamp; the quickest answer gives the best bound."""
        ahead_s = theirs_s - sent_s
        if ahead_s <= self.ahead_s(sent_s) or sent_s - self._learned_s >= _OLD_S:
            self._ahead_s, self._learned_s = ahead_s, sent_s

    def ahead_s(self, now: float) -> float:
        """Return by how much it is ahead, at the most."""
        return self._ahead_s + _MOST_DRIFT * (now - self._learned_s)

    def ask(self, now: float) -> bool:
        """Return whether it should be asked again; it is taken to be, then."""
        old = math.isinf(self._ahead_s) or now - self._learned_s >= _OLD_S
        if not old or now - self._asked_s < _AGAIN_S:
            return False
        self._asked_s = now
        return True
