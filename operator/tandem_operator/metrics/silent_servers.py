"""Prometheus servers that answer no pool in time: they are tried now and then, not by every pass.

One server may be that of all pools. Each pass would wait for it to its limit, and no pool would be
looked at every few seconds any more.
"""

from dataclasses import dataclass, field

TRIED_EVERY_S = 15.0
POOLS_UNANSWERED = 2
"""A single pool may ask for more than its server can tell in time."""


@dataclass(slots=True)
class _Silence:
    pools: set[tuple[str, str]] = field(default_factory=set)
    tried_s: float = 0.0


class SilentServers:
    """What servers did when they were asked last, by their URLs."""

    def __init__(self) -> None:
        self._silent: dict[str, _Silence] = {}

    def may_ask(self, url: str, *, now_s: float) -> bool:
        """Whether a pass asks it now; while it is silent, one pass in a while tries it."""
        silence = self._silent.get(url)
        if silence is None or len(silence.pools) < POOLS_UNANSWERED:
            return True
        if now_s - silence.tried_s < TRIED_EVERY_S:
            return False
        silence.tried_s = now_s
        return True

    def note(self, url: str, *, pool: tuple[str, str], answered: bool, now_s: float) -> None:
        """What became of a pool's questions."""
        if answered:
            self._silent.pop(url, None)
            return
        silence = self._silent.setdefault(url, _Silence())
        silence.pools.add(pool)
        silence.tried_s = now_s

    def forget(self, pool: tuple[str, str]) -> None:
        """Drop what is kept of a pool that is gone."""
        for silence in self._silent.values():
            silence.pools.discard(pool)
        self._silent = {url: silence for url, silence in self._silent.items() if silence.pools}
