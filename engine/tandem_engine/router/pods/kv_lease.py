"""The time until which the KV blocks at a prefill pod surely belong to their request.

A decode pod that pulls them later gets the blocks of another prompt, without an error. So uncertain
blocks count as gone: a time of the engine's clock is converted to the earliest possible time of
this router's clock. Pure.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tandem_engine.router.openai.kv_fields import ENDS_FIELD, LEASE_S_FIELD, NAME_FIELD

if TYPE_CHECKING:
    from tandem_engine.router.pods.pod import Pod

_MARGIN_SHARE = 1 / 6
# The most by which the kernel slews a clock that NTP corrects.
_MOST_DRIFT = 5e-4


class Lost(StrEnum):
    """Why a lease ended before its request had a first token."""

    HELD = "held"
    SILENT = "silent"
    LATE = "late"


class LeaseOver(Exception):  # noqa: N818 - named for what happened, not a bug
    """A request's KV blocks may belong to another request by now, so it must be served again."""

    def __init__(self, how: Lost) -> None:
        super().__init__(how.value)
        self.how = how


@dataclass(slots=True)
class PeerOffset:
    """The known offset of another machine's clock: the least by which this clock is ahead.

    A time that the other machine stamps after a request was sent gives a bound, and the quickest
    answer gives the best one.
    """

    _ahead_s: float = -math.inf
    _learned_s: float = 0.0

    def earliest_s(self, theirs_s: float, *, after_s: float, now: float) -> float:
        """Return the earliest possible time here of `theirs_s` there; it was after `after_s`."""
        ahead_s = self._ahead_s - _MOST_DRIFT * (now - self._learned_s)
        # What would still be to come was stamped by another clock than the one that is known.
        if not after_s <= theirs_s + ahead_s <= now:
            self._ahead_s, self._learned_s = after_s - theirs_s, now
            return after_s
        return theirs_s + ahead_s


@dataclass(slots=True, eq=False)
class Handover:
    """The KV blocks of a prefill pod for a decode pod.

    Attributes:
        kv_params: go to the decode pod verbatim.
        until_s: time from which the blocks must not be used.
        seen_by: the decode pod that may have seen them: only this one can pull the blocks.
        over: the blocks were used, or given back.
    """

    kv_params: Any
    prefill: "Pod"
    until_s: float
    seen_by: "Pod | None" = None
    over: bool = False

    @property
    def revision(self) -> str:
        """Return the revision whose decode pods can pull the blocks."""
        return self.prefill.endpoint.revision

    @property
    def name(self) -> str | None:
        """Return the name by which the prefill pod can free the lease, if it can."""
        name = self.kv_params.get(NAME_FIELD) if isinstance(self.kv_params, dict) else None
        return name if isinstance(name, str) else None


class Early:
    """Keeps the beginning of an answer back until a token shows that the blocks came in time.

    A request whose answer has begun cannot be served again, so nothing is passed on before that.
    """

    def __init__(self, until_s: float) -> None:
        self.until_s = until_s
        self._kept: list[bytes] = []

    def passed_on(
        self, payloads: list[bytes], *, token: bool, now: float
    ) -> "tuple[list[bytes], Early | None]":
        """Return the data for the client now; `None` once nothing is kept back any more.

        Raises `LeaseOver` for a token that came too late.
        """
        if now >= self.until_s:
            raise LeaseOver(Lost.LATE)
        self._kept += payloads
        return (self._kept, None) if token else ([], self)


def usable_until_s(
    kv_params: Any, *, clock: PeerOffset, sent_s: float, now: float, lease_s: float
) -> float:
    """Return the time until which KV parameters that have just come can be used.

    The lease began after the request was sent. If an engine does not report the end of a lease,
    this is all that is known.
    """
    ends_s, own_lease_s = _seconds(kv_params, ENDS_FIELD), _seconds(kv_params, LEASE_S_FIELD)
    if own_lease_s is not None:
        lease_s = own_lease_s
    began_s = sent_s
    if ends_s is not None:
        began_s = clock.earliest_s(ends_s - lease_s, after_s=sent_s, now=now)
    return began_s + lease_s * (1 - _MARGIN_SHARE)


def _seconds(kv_params: Any, field: str) -> float | None:
    seconds = kv_params.get(field) if isinstance(kv_params, dict) else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    try:
        return float(seconds) if math.isfinite(seconds) else None
    except OverflowError:
        # A whole number may have any number of digits.
        return None
