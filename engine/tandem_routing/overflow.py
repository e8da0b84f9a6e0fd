"""The decode pod that can serve a whole request: its prompt and its answer.

If prefill pods would serve a request late, a decode pod with slack computes the prompt within its
own steps. This helps at once, while a new prefill pod takes its start-up time. It delays every
stream of that pod. So a pod takes a prompt only while all its streams keep TPOT by a margin.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Protocol, TypeVar

from tandem_routing.deadline_queue import Turn, Unfit, Waiting, turn_of
from tandem_routing.decode_admission import (
    KV_SHARE,
    DecodePace,
    held_tokens,
    stream_life_s,
    streams_at,
)
from tandem_routing.outstanding import NO_LOAD, Load, Outstanding
from tandem_routing.pod_choice import least_loaded

# Outputs may be longer than expected, and prompt times are known only from prefill pods.
TPOT_SHARE = 0.8
# The step under way, and the one that makes the first token.
STEPS_TO_FIRST = 2.0

P = TypeVar("P", bound=Outstanding)
W = TypeVar("W", bound=Waiting)


class OverflowPace(DecodePace, Protocol):
    """The speed of one decode pod, and whether the router may send whole requests to it."""

    @property
    def overflow(self) -> bool:
        """Return whether the router may send whole requests to decode pods."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A request that one decode pod would serve whole.

    Attributes:
        compute_s: its prompt alone, at a decode pod.
        deadline_s: when its TTFT bound passes.
    """

    prompt_tokens: int
    output_tokens: int
    compute_s: float
    deadline_s: float


# Less than any request: a pod whose streams leave no slack for this has none for any.
_LEAST = Whole(prompt_tokens=0, output_tokens=0, compute_s=0.0, deadline_s=inf)


def spare(pods: Iterable[P], pace: OverflowPace, *, now: float, tpot_s: float) -> list[P]:
    """Return the pods that may have slack for at least the smallest request.

    A pod that computes a prompt takes no second one.
    """
    if not pace.overflow:
        return []
    return [
        pod
        for pod in pods
        if not pod.stalls.computing
        and 1 + streams_at(pod, pace) <= pace.max_num_seqs
        and (not pod.streams or _bears_whole(_LEAST, pod, pace, now=now, tpot_s=tpot_s))
    ]


def slack_for(
    whole: Whole,
    pods: Sequence[P],
    pace: DecodePace,
    *,
    now: float,
    tpot_s: float,
    reserve: Load = NO_LOAD,
) -> P | None:
    """Return the least loaded of `spare` pods that serves it in time while all streams keep TPOT.

    Each pod keeps TPOT with the `reserve` too. Return `None` if the time of the prompt is not
    known.
    """
    if whole.compute_s <= 0.0:
        return None
    return least_loaded(
        pod
        for pod in pods
        if _bears_whole(whole, pod, pace, now=now, tpot_s=tpot_s, reserve=reserve)
    )


def helped(
    excess: Iterable[Turn[W]], pods: Sequence[P], pace: DecodePace, *, now: float, tpot_s: float
) -> tuple[Turn[W], P] | None:
    """Return the first of `excess` that a `spare` pod has slack for, and the pod; raises `Unfit`.

    Return `None` if there is no such request.
    """
    for turn in excess:
        deadline_s = turn.waiter.deadline_s
        pod = _slack(turn, pods, pace, deadline_s=deadline_s, now=now, tpot_s=tpot_s)
        if pod is not None:
            return turn, pod
    return None


def helped_spare(
    waiting: Iterable[W],
    pods: Sequence[P],
    pace: OverflowPace,
    *,
    reserve: Load,
    now: float,
    tpot_s: float,
) -> tuple[Turn[W], P] | None:
    """Return the first best effort that a pod has slack for, and the pod; raises `Unfit`.

    The request can be late. It must leave the `reserve` of all pods, and one free pod for requests
    that must be on time.
    """
    free = spare(pods, pace, now=now, tpot_s=tpot_s)
    if len(free) < min(2, len(pods)):
        return None
    each = Load(
        tokens=ceil(reserve.tokens / len(pods)),
        streams=ceil(reserve.streams / len(pods)),
        output_tokens=ceil(reserve.output_tokens / len(pods)),
    )
    for waiter in waiting:
        turn = turn_of(waiter)
        pod = _slack(turn, free, pace, deadline_s=inf, now=now, tpot_s=tpot_s, reserve=each)
        if pod is not None:
            return turn, pod
    return None


def _slack(
    turn: Turn[W],
    pods: Sequence[P],
    pace: DecodePace,
    *,
    deadline_s: float,
    now: float,
    tpot_s: float,
    reserve: Load = NO_LOAD,
) -> P | None:
    """Return the pod that has slack for all of a request; raises `Unfit`."""
    whole = Whole(
        prompt_tokens=turn.waiter.tokens,
        output_tokens=turn.expected.output_tokens,
        compute_s=turn.expected.whole_s,
        deadline_s=deadline_s,
    )
    try:
        return slack_for(whole, pods, pace, now=now, tpot_s=tpot_s, reserve=reserve)
    except Exception as error:
        raise Unfit(turn.waiter) from error


def _bears_whole(
    whole: Whole,
    pod: Outstanding,
    pace: DecodePace,
    *,
    now: float,
    tpot_s: float,
    reserve: Load = NO_LOAD,
) -> bool:
    streams = 1 + streams_at(pod, pace) + reserve.streams
    own = 1 + pod.streams + reserve.streams
    tokens = pod.tokens + whole.prompt_tokens + whole.output_tokens + reserve.tokens
    output_tokens = pod.output_tokens + whole.output_tokens + reserve.output_tokens
    kv_tokens = streams * held_tokens(tokens, output_tokens, streams=own)
    capacity = pace.kv_capacity_tokens
    if capacity is not None and kv_tokens > KV_SHARE * capacity:
        return False
    step_s = pace.seconds(streams, kv_tokens)
    bound_s = TPOT_SHARE * tpot_s
    if step_s > bound_s or now + whole.compute_s + STEPS_TO_FIRST * step_s > whole.deadline_s:
        return False
    stalled = pod.stalls.share(
        now,
        life_s=stream_life_s(pod, tpot_s=tpot_s, next_tokens=whole.output_tokens),
        more_s=whole.compute_s,
        routers=pace.routers,
    )
    return step_s <= bound_s * (1.0 - stalled)
