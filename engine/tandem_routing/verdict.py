"""The verdict on one request: TTFT and its parts, TPOT, outcome, blame.

The code is pure: times (monotonic seconds) come in, and a verdict comes out. The parts always sum
to TTFT.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class LatencyBounds(Protocol):
    """The bounds that make a request good."""

    @property
    def tpot_s(self) -> float:
        """Return the TPOT bound."""

    def ttft_bound_s(self, prompt_tokens: int, /) -> float:
        """Return the TTFT bound of a request with this many prompt tokens."""


class Cause(StrEnum):
    """The causes of violations; the first five, and `wake`, are the parts of TTFT."""

    ROUTER_QUEUE = "router_queue"
    ENGINE_QUEUE = "engine_queue"
    PREFILL = "prefill"
    TRANSFER = "transfer"
    DECODE_ADMISSION = "decode_admission"
    DECODE_STEP = "decode_step"
    ERROR = "error"
    WAKE = "wake"
    """The pool was at zero, so no number of replicas could have prevented the wait."""


class Ending(StrEnum):
    """How a request left the router."""

    ANSWERED = "answered"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    SHED = "shed"
    GONE = "gone"
    REFUSED = "refused"
    TOO_LATE = "too_late"
    """It was refused while it waited, because it could not be on time any more."""


class Outcome(StrEnum):
    """The label of `tandem_router_requests_total`."""

    GOOD = "good"
    LATE_TTFT = "late_ttft"
    LATE_TPOT = "late_tpot"
    LATE_BOTH = "late_both"
    FAILED = "failed"
    SHED = "shed"
    GONE = "gone"
    REFUSED = "refused"
    TOO_LATE = "too_late"


@dataclass(slots=True)
class Timeline:
    """The times of one request; `None` until they come.

    Attributes:
        received_s: the router had the whole request.
        dispatched_s: it left the router's queue.
        prefill_ended_s: the last prefill try ended, well or not; `None` without one.
        held_s: the part of its wait during which no decode pod was usable.
        wake_s: the part of its wait during which the pool woke; none of `held_s`.
        first_token_s, last_token_s: sent to the client (seen, for an answer not streamed), less
            the time in which the client read nothing.
        service_s: S(u) as known when the prefill ended; `None` while unknown.
        transfer_s: mean KV transfer time, `None` while unknown or without transfer.
    """

    received_s: float
    dispatched_s: float | None = None
    prefill_started: bool = False
    prefill_ended_s: float | None = None
    held_s: float = 0.0
    wake_s: float = 0.0
    first_token_s: float | None = None
    last_token_s: float | None = None
    service_s: float | None = None
    transfer_s: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The measured result of one ended request; `None` for a phase that it did not reach.

    Attributes:
        queued_s: how long it waited in the router.
        never_left: it ended in the router's queue.
    """

    outcome: Outcome
    ttft_s: float | None
    tpot_s: float | None
    ttft_bound_s: float
    tpot_bound_s: float
    late_ttft: bool
    late_tpot: bool
    parts: Mapping[Cause, float]
    queued_s: float
    never_left: bool = False


def ttft_parts(timeline: Timeline, *, until_s: float) -> dict[Cause, float]:
    """Return the parts of the time from receipt to `until_s`; they sum to this time.

    A wait until any decode pod exists is decode admission, although the request waits in the
    router: no prefill pod could shorten it. A decode-only request has its prefill inside its decode
    leg, so S(u) of that leg is its part `prefill`. Only a request that waited for a pool at zero
    has the part `wake`.
    """
    queue_end = until_s if timeline.dispatched_s is None else timeline.dispatched_s
    waited = queue_end - timeline.received_s
    wake = min(timeline.wake_s, waited)
    held = min(timeline.held_s, waited - wake)
    decode_start = queue_end
    leg = 0.0
    if timeline.prefill_started:
        decode_start = until_s if timeline.prefill_ended_s is None else timeline.prefill_ended_s
        leg = decode_start - queue_end
    decode = until_s - decode_start
    if timeline.prefill_started:
        prefill = leg if timeline.service_s is None else min(leg, timeline.service_s)
    else:
        prefill = 0.0 if timeline.service_s is None else min(decode, timeline.service_s)
        leg, decode = prefill, decode - prefill
    transfer = min(timeline.transfer_s or 0.0, decode)
    # It comes first: a request that was refused at once has waited for no time at all.
    woken = {Cause.WAKE: wake} if timeline.wake_s > 0.0 else {}
    return woken | {
        Cause.ROUTER_QUEUE: waited - wake - held,
        Cause.ENGINE_QUEUE: leg - prefill,
        Cause.PREFILL: prefill,
        Cause.TRANSFER: transfer,
        Cause.DECODE_ADMISSION: held + decode - transfer,
    }


def judge(
    timeline: Timeline,
    ending: Ending,
    *,
    ended_s: float,
    slo: LatencyBounds,
    prompt_tokens: int,
    output_tokens: int,
) -> Verdict:
    """Return the verdict on one request, at the bounds in force now.

    `output_tokens` are those of one stream, the longest where several answers were made at once.
    A client that left before its TTFT bound is `gone`; one that left after it without a first
    token, or whose first token was late, is a TTFT violation.
    """
    bound_s = slo.ttft_bound_s(prompt_tokens)
    first = timeline.first_token_s
    ttft_s = None if first is None else first - timeline.received_s
    tpot_s = None
    if first is not None and timeline.last_token_s is not None and output_tokens > 1:
        tpot_s = (timeline.last_token_s - first) / (output_tokens - 1)
    waited_s = ended_s - timeline.received_s if ttft_s is None else ttft_s
    late_ttft = waited_s > bound_s
    late_tpot = ending is Ending.ANSWERED and tpot_s is not None and tpot_s > slo.tpot_s
    return Verdict(
        outcome=_outcome(ending, late_ttft=late_ttft, late_tpot=late_tpot),
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        ttft_bound_s=bound_s,
        tpot_bound_s=slo.tpot_s,
        late_ttft=late_ttft,
        late_tpot=late_tpot,
        parts=ttft_parts(timeline, until_s=timeline.received_s + waited_s),
        queued_s=waited_s
        if timeline.dispatched_s is None
        else timeline.dispatched_s - timeline.received_s,
        never_left=timeline.dispatched_s is None,
    )


def _outcome(ending: Ending, *, late_ttft: bool, late_tpot: bool) -> Outcome:
    match ending:
        case Ending.FAILED | Ending.TIMED_OUT:
            return Outcome.FAILED
        case Ending.SHED | Ending.REFUSED | Ending.TOO_LATE:
            return Outcome(ending.value)
        case Ending.GONE:
            return Outcome.LATE_TTFT if late_ttft else Outcome.GONE
    if late_ttft:
        return Outcome.LATE_BOTH if late_tpot else Outcome.LATE_TTFT
    return Outcome.LATE_TPOT if late_tpot else Outcome.GOOD


def blame(verdict: Verdict, ending: Ending, *, usual: Mapping[Cause, float]) -> Cause | None:
    """Return the one cause of a violation; `None` if there is none.

    A late first token is blamed on the part that exceeds its allowance by most. The allowance is
    the `usual` value of good requests of similar length, so a prefill that is always long is not
    the cause. If the usual parts together exceed the bound (because it was tightened), they are
    scaled down to it, and the largest excess is the cause.
    """
    if verdict.outcome in (Outcome.GOOD, Outcome.GONE, Outcome.REFUSED):
        return None
    if ending is Ending.FAILED:
        return Cause.ERROR
    if verdict.outcome is Outcome.LATE_TPOT or (
        verdict.outcome is Outcome.LATE_BOTH
        and _overrun(verdict.tpot_s, verdict.tpot_bound_s)
        > _overrun(verdict.ttft_s, verdict.ttft_bound_s)
    ):
        return Cause.DECODE_STEP
    if verdict.outcome is Outcome.TOO_LATE or verdict.never_left:
        # It may have waited for less than is usual, and it was in no other part.
        usual = {}
    usual_ttft_s = sum(usual.values())
    scale = min(1.0, verdict.ttft_bound_s / usual_ttft_s) if usual_ttft_s else 0.0
    return max(verdict.parts, key=lambda part: verdict.parts[part] - scale * usual.get(part, 0.0))


def _overrun(value_s: float | None, bound_s: float) -> float:
    return 0.0 if value_s is None else value_s / bound_s
