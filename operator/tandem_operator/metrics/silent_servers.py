"""Prometheus servers that do not answer in time: only some passes try them again.

One server may be that of all pools. If each pass waited for it up to the limit, no pool would be
looked at every few seconds. But a server may answer one pool and not another: a pool's token or
tenant can be the cause. This says nothing about pools with another token or tenant.
"""

from dataclasses import dataclass

TRIED_EVERY_S = 15.0
POOLS_UNANSWERED = 2
"""Number of pools without an answer: a single pool may ask for more than its server can give in
time."""

Pool = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AskedServer:
    """A server as a pool queries it.

    Attributes:
        asker: identity of the pool at the server: its token and its tenant.
    """

    url: str
    asker: str


@dataclass(slots=True)
class _Unanswered:
    asked: AskedServer
    tried_s: float


class SilentServers:
    """The pools that got no answer to their last query."""

    def __init__(self) -> None:
        self._unanswered: dict[Pool, _Unanswered] = {}

    def may_ask(self, asked: AskedServer, *, pool: Pool, now_s: float) -> bool:
        """Return whether a pool's pass queries it now; only some passes try a silent server."""
        alike = self._alike(asked)
        if not self._is_silent(asked, pool, len(alike)):
            return True
        if now_s - max(each.tried_s for each in alike) < TRIED_EVERY_S:
            return False
        for each in alike:
            each.tried_s = now_s
        return True

    def note(self, asked: AskedServer, *, pool: Pool, answered: bool, now_s: float) -> None:
        """Record the result of a pool's queries; after an answer, like pools may ask again."""
        self.forget(pool)
        if not answered:
            self._unanswered[pool] = _Unanswered(asked, now_s)
            return
        self._unanswered = {
            other: each for other, each in self._unanswered.items() if each.asked != asked
        }

    def forget(self, pool: Pool) -> None:
        """Drop what is kept of a pool that is gone."""
        self._unanswered.pop(pool, None)

    def _alike(self, asked: AskedServer) -> list[_Unanswered]:
        return [each for each in self._unanswered.values() if each.asked == asked]

    def _is_silent(self, asked: AskedServer, pool: Pool, alike: int) -> bool:
        """Return whether it is silent to pools that query alike, or to this pool and to others."""
        if alike >= POOLS_UNANSWERED:
            return True
        own = self._unanswered.get(pool)
        if own is None or own.asked != asked:
            return False
        at_url = sum(each.asked.url == asked.url for each in self._unanswered.values())
        return at_url >= POOLS_UNANSWERED
