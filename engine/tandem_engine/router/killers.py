"""Requests that end engines: which bodies were at two that died, and are refused for a while.

A body is known by a keyed digest that never leaves this process. What one client sends condemns
nothing of another: the digest is of its credentials too. A body that was answered is no killer.
"""

import hashlib
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from tandem_engine.router.call import Call
from tandem_engine.router.errors import ApiError

MOST_ENGINES = 2
"""How many engines one request may end, in all its tries and whoever sends it again."""
REFUSED_S = 300.0
_MOST_SUSPECTS = 4096
# A pod that ended takes longer than this to serve again: what is told within it is one end.
_ONE_END_S = 5.0


@dataclass(slots=True)
class _Suspect:
    ends: int = 0
    last_s: float = -math.inf
    pods: dict[str, float] = field(default_factory=dict)


class Killers:
    """Remembers what was at engines when they ended."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._suspects: dict[bytes, _Suspect] = {}

    def check(self, call: Call, *, credentials: str | None) -> None:
        """Raise `ApiError` for a request at which two engines ended lately."""
        # Nothing is digested as long as no engine ended.
        if self._suspects and self._ends(self._digest(call, credentials)) >= MOST_ENGINES:
            raise ApiError(
                422,
                f"This request ended {MOST_ENGINES} engines, so it is refused for"
                f" {REFUSED_S / 60:g} minutes; send a different one.",
                code="engine_killer",
            )

    def ended(self, call: Call, *, credentials: str | None, pod: str) -> bool:
        """Take note that `pod` ended with the request; return whether no other should get it."""
        now = self._clock()
        self._forget(now)
        digest = self._digest(call, credentials)
        suspect = self._suspects.pop(digest, None) or _Suspect()
        if now >= suspect.pods.get(pod, -math.inf) + _ONE_END_S:
            suspect.ends += 1
        suspect.pods[pod] = suspect.last_s = now
        self._suspects[digest] = suspect
        return suspect.ends >= MOST_ENGINES

    def answered(self, call: Call, *, credentials: str | None) -> None:
        """Take note that the request was answered: it was there when others ended an engine."""
        if self._suspects:
            self._suspects.pop(self._digest(call, credentials), None)

    def _ends(self, digest: bytes) -> int:
        suspect = self._suspects.get(digest)
        lately = suspect is not None and suspect.last_s > self._clock() - REFUSED_S
        return suspect.ends if suspect is not None and lately else 0

    def _forget(self, now: float) -> None:
        for digest in [d for d, s in self._suspects.items() if s.last_s <= now - REFUSED_S]:
            del self._suspects[digest]
        while len(self._suspects) >= _MOST_SUSPECTS:
            del self._suspects[next(iter(self._suspects))]

    def _digest(self, call: Call, credentials: str | None) -> bytes:
        digest = hashlib.blake2b(key=self._key, digest_size=16)
        for part in (call.kind.encode(), (credentials or "").encode(), call.shared):
            digest.update(b"%d:" % len(part) + part)
        digest.update(call.decode_only)
        return digest.digest()
