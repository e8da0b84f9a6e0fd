"""The most that another engine's clock can be ahead of this one. Pure.

vLLM uses the middle of one round trip of its handshake, once. If an engine was stopped during it,
or clocks drift for days, leases would seem too long.
"""

import math
from dataclasses import dataclass

# The most by which the kernel slews a clock that NTP corrects, and more than clocks alone differ.
_MOST_DRIFT = 5e-4
_OLD_S = 300.0
_AGAIN_S = 10.0


@dataclass(slots=True)
class PeerClock:
    """An upper bound by time stamps: the answer was stamped after the query was sent."""

    _ahead_s: float = math.inf
    _learned_s: float = 0.0
    _asked_s: float = -math.inf

    def stamped(self, theirs_s: float, *, sent_s: float) -> None:
        """Record a stamp; the quickest answer gives the best bound."""
        ahead_s = theirs_s - sent_s
        if ahead_s <= self.ahead_s(sent_s) or sent_s - self._learned_s >= _OLD_S:
            self._ahead_s, self._learned_s = ahead_s, sent_s

    def ahead_s(self, now: float) -> float:
        """Return the most that it can be ahead."""
        return self._ahead_s + _MOST_DRIFT * (now - self._learned_s)

    def ask(self, now: float) -> bool:
        """Return whether to ask again; the query then counts as sent."""
        old = math.isinf(self._ahead_s) or now - self._learned_s >= _OLD_S
        if not old or now - self._asked_s < _AGAIN_S:
            return False
        self._asked_s = now
        return True
