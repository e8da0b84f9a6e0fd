"""Requests that end engines: bodies that two engines ended with are refused for a while.

A body is known by a keyed digest. It is the same in all routers with the pool's key, and these
routers exchange ends and answers. Without that key the digest never leaves this process. The digest
covers the client's credentials too, so one client cannot block the body of another. A body that an
engine answered ends no engine.
"""

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from tandem_engine.router.openai.call import Call
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.peers.notice import MOST_IN_A_NOTICE, REFUSED_S, Answer, End, Notice

MOST_ENGINES = 2
"""Most engines that one request can end, over all its tries and all senders."""
_MOST_SUSPECTS = 4096
# A pod that ended takes longer than this to serve again: what is told within it is one end.
_ONE_END_S = 5.0


@dataclass(slots=True)
class _Ended:
    pod: str
    first_s: float
    last_s: float

    def is_at(self, pod: str, at_s: float) -> bool:
        near = self.first_s - _ONE_END_S < at_s < self.last_s + _ONE_END_S
        return pod == self.pod and near


@dataclass(slots=True)
class _Suspect:
    """The record of one body; it keeps only as many of the last ends as matter."""

    ended: list[_Ended] = field(default_factory=list)

    @property
    def last_s(self) -> float:
        return max(each.last_s for each in self.ended)

    def take(self, pod: str, at_s: float) -> None:
        for each in self.ended:
            if each.is_at(pod, at_s):
                each.first_s, each.last_s = min(each.first_s, at_s), max(each.last_s, at_s)
                return
        self.ended.append(_Ended(pod, at_s, at_s))
        self.ended.sort(key=lambda each: each.last_s)
        del self.ended[:-MOST_ENGINES]


class Killers:
    """Remembers the bodies that engines had when they ended.

    Args:
        pool_key: the key of all routers of the pool; `None`: this router exchanges nothing.
    """

    def __init__(self, clock: Callable[[], float], *, pool_key: str | None = None) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32) if pool_key is None else derived(pool_key, b"digests")
        self._suspects: dict[bytes, _Suspect] = {}

    def check(self, call: Call, *, credentials: str | None) -> None:
        """Raise `ApiError` for a request that two engines ended with recently."""
        # Nothing is digested as long as no engine ended.
        if self._suspects and self.has_ended_two(self._digest(call, credentials)):
            raise ApiError(
                422,
                f"{MOST_ENGINES} engines ended while they served this request. The router refuses"
                f" it for {REFUSED_S / 60:g} minutes; send a different one.",
                code="engine_killer",
            )

    def ended(self, call: Call, *, credentials: str | None, pod: str) -> bytes:
        """Record that `pod` ended with the request; return the request's digest."""
        now, digest = self._clock(), self._digest(call, credentials)
        self._forget(now)
        self._take(digest, pod, now)
        return digest

    def has_ended_two(self, digest: bytes) -> bool:
        """Return whether so many engines ended with a request that no other should get it."""
        suspect = self._suspects.get(digest)
        if suspect is None or suspect.last_s <= self._clock() - REFUSED_S:
            return False
        return len(suspect.ended) >= MOST_ENGINES

    def answered(self, call: Call, *, credentials: str | None) -> bytes | None:
        """Record that the request was answered, so it did not cause the ends before.

        Returns its digest if ends had counted against it.
        """
        if not self._suspects:
            return None
        digest = self._digest(call, credentials)
        return None if self._suspects.pop(digest, None) is None else digest

    def hear(self, notice: Notice) -> None:
        """Add the ends and answers of another router."""
        now = self._clock()
        self._forget(now)
        for end in notice.ends:
            self._take(end.digest, end.pod, now - end.age_s)
        for answer in notice.answers:
            self._clear(answer, now - answer.age_s)

    def known(self, digests: frozenset[bytes] | None = None) -> Notice:
        """Return the newest ends and answers; with `digests`, only those of these."""
        now = self._clock()
        self._forget(now)
        found: list[End] = []
        for digest, suspect in reversed(self._suspects.items()):
            if digests is None or digest in digests:
                found += [End(digest, each.pod, now - each.last_s) for each in suspect.ended]
        return Notice(ends=tuple(found[:MOST_IN_A_NOTICE]))

    def _take(self, digest: bytes, pod: str, at_s: float) -> None:
        suspect = self._suspects.pop(digest, None) or _Suspect()
        suspect.take(pod, at_s)
        self._suspects[digest] = suspect
        while len(self._suspects) > _MOST_SUSPECTS:
            del self._suspects[next(iter(self._suspects))]

    def _clear(self, answer: Answer, at_s: float) -> None:
        """Remove the ends of a body from before its answer."""
        suspect = self._suspects.get(answer.digest)
        if suspect is None:
            return
        suspect.ended = [each for each in suspect.ended if each.last_s > at_s]
        if not suspect.ended:
            del self._suspects[answer.digest]

    def _forget(self, now: float) -> None:
        for digest in [d for d, s in self._suspects.items() if s.last_s <= now - REFUSED_S]:
            del self._suspects[digest]

    def _digest(self, call: Call, credentials: str | None) -> bytes:
        digest = hashlib.blake2b(key=self._key, digest_size=16)
        for part in (call.kind.encode(), (credentials or "").encode(), call.shared):
            digest.update(b"%d:" % len(part) + part)
        digest.update(call.decode_only)
        return digest.digest()


def derived(pool_key: str, purpose: bytes) -> bytes:
    """Return a key for `purpose`, from which the pool's key cannot be found."""
    whole = hashlib.sha256(pool_key.encode()).digest()
    return hashlib.blake2b(b"tandem routers " + purpose, key=whole, digest_size=32).digest()
