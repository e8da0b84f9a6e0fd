"""The limits of tenants: how much each may ask for in a minute.

What a tenant asked for fades at the rate of its limit. A request that would bring it above the
limit of a minute is refused. The refusal says when it would pass, and costs the tenant nothing.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum

from tandem_routing.tenant_shares import MOST_TENANTS

_MINUTE_S = 60.0
# A pool has so many routers at most, and each may grant a minute before it hears of the others.
_MOST_HEARD_MINUTES = 32
# The rounding of floating-point numbers may not refuse a request that came back in time.
_ROUNDING = 1e-6


class Limited(StrEnum):
    """What a tenant asked for too much of."""

    REQUESTS = "requests"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class TenantLimit:
    """The most that a tenant may ask for in a minute; `None`: any number."""

    requests: int | None = None
    tokens: int | None = None

    @property
    def unlimited(self) -> bool:
        """Return whether there is none."""
        return self.requests is None and self.tokens is None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request came too early: it passes after `wait_s` if the tenant asks for nothing else."""

    what: Limited
    limit: int
    wait_s: float

    @property
    def retry_after_s(self) -> int:
        """Return the whole seconds after which it passes."""
        return max(1, math.ceil(self.wait_s))


@dataclass(slots=True)
class _Asked:
    """What a tenant asked for and what has not faded yet."""

    requests: float = 0.0
    tokens: float = 0.0
    at_s: float = 0.0

    def fade(self, limit: TenantLimit, now: float) -> None:
        passed = max(0.0, now - self.at_s) / _MINUTE_S
        self.requests = _faded(self.requests, limit.requests, passed)
        self.tokens = _faded(self.tokens, limit.tokens, passed)
        self.at_s = now


def _faded(asked: float, limit: int | None, passed: float) -> float:
    # A limit that an edit adds begins at nothing.
    return 0.0 if limit is None else max(0.0, asked - passed * limit)


def _with_heard(asked: float, more: int, limit: int | None) -> float:
    # A router that lies must not shut a tenant out for hours.
    most = max(asked, _MOST_HEARD_MINUTES * (limit or 0))
    return max(0.0, min(most, asked + more))


class TenantLimits:
    """What every tenant asked for lately. The one that asked least recently is forgotten first."""

    def __init__(self) -> None:
        self._asked: OrderedDict[str, _Asked] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of remembered tenants."""
        return len(self._asked)

    def ask(self, name: str, limit: TenantLimit, *, tokens: int, now: float) -> Refusal | None:
        """Count a request with so many tokens, or return why it may not pass yet.

        A request with more tokens than the limit passes if nothing else was asked for.
        """
        if limit.unlimited:
            return None
        asked = self._of(name, limit, now)
        refusals = [
            refusal
            for refusal in (
                _refusal(Limited.REQUESTS, limit.requests, asked.requests, 1),
                _refusal(Limited.TOKENS, limit.tokens, asked.tokens, tokens),
            )
            if refusal is not None
        ]
        if refusals:
            return max(refusals, key=lambda refusal: refusal.wait_s)
        asked.requests += 1
        asked.tokens += tokens
        return None

    def settle(
        self,
        name: str,
        limit: TenantLimit,
        *,
        counted: int,
        used: int,
        since_s: float,
        now: float,
    ) -> int:
        """Replace the tokens that were counted for a request at `since_s` by those that it used.

        Tokens that have faded meanwhile are not given back. Return the tokens that were added. The
        number is below zero if some were given back.
        """
        if limit.tokens is None:
            return 0
        asked = self._of(name, limit, now)
        faded = limit.tokens * max(0.0, now - since_s) / _MINUTE_S
        more = max(used - counted, min(0.0, faded - counted))
        asked.tokens = max(0.0, asked.tokens + more)
        return round(more)

    def hear(
        self, name: str, limit: TenantLimit, *, requests: int, tokens: int, now: float
    ) -> None:
        """Count what a tenant asked for elsewhere, even beyond its limit: it was served there.

        More than all routers of a pool can grant in a minute counts as this much.
        """
        if limit.unlimited:
            return
        asked = self._of(name, limit, now)
        asked.requests = _with_heard(asked.requests, requests, limit.requests)
        asked.tokens = _with_heard(asked.tokens, tokens, limit.tokens)

    def _of(self, name: str, limit: TenantLimit, now: float) -> _Asked:
        asked = self._asked.setdefault(name, _Asked(at_s=now))
        self._asked.move_to_end(name)
        while len(self._asked) > MOST_TENANTS:
            self._asked.popitem(last=False)
        asked.fade(limit, now)
        return asked


def _refusal(what: Limited, limit: int | None, asked: float, more: int) -> Refusal | None:
    if limit is None:
        return None
    over = asked + min(more, limit) - limit
    if over <= _ROUNDING:
        return None
    return Refusal(what, limit, _MINUTE_S * over / limit)
