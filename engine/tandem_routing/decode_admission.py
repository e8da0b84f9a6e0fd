"""Whether the decode pods can bear one more stream.

Beyond the largest batch that keeps TPOT, one more stream makes every stream late; here it waits
instead, and the excess alone is late. How fast a decode pod is, the operator says.
"""

from collections.abc import Sequence
from typing import Protocol

from tandem_routing.outstanding import NO_LOAD, Load, Outstanding

TPOT_SHARE = 0.95
# Who is late already takes no place that somebody on time may need in a moment.
TPOT_SHARE_LATE = 0.9
KV_SHARE = 0.95


class DecodePace(Protocol):
    """How fast one decode pod is, as the operator learned it."""

    @property
    def kv_capacity_tokens(self) -> float | None:
        """Return the tokens that its cache holds; `None`: not known."""

    @property
    def max_num_seqs(self) -> int:
        """Return the most streams in its batch."""

    @property
    def routers(self) -> int:
        """Return how many routers send it requests."""

    def seconds(self, streams: float, kv_tokens: float, /) -> float:
        """Return the time of a step with so many streams that hold so many tokens."""


def held_tokens(tokens: int, output_tokens: int, *, streams: int) -> float:
    """Return what a stream holds in cache on average where so many have so much in the end.

    Its cache grows from its prompt to prompt and output.
    """
    return max(1.0, (tokens - 0.5 * output_tokens) / streams)


def stream_life_s(pod: Outstanding, *, tpot_s: float, next_tokens: float) -> float:
    """Return how long a stream at `pod` lasts; where there is none, the next, of so many tokens.

    What stands still for a prompt are the streams that are there, not the next one.
    """
    tokens = pod.output_tokens / pod.streams if pod.streams else next_tokens
    return max(1.0, tokens) * tpot_s


def streams_at(pod: Outstanding, pace: DecodePace) -> int:
    """Return the streams at `pod`, of all routers."""
    # An engine's own count lags behind; where there is one router, it is this one's that is right.
    return pod.streams + (pod.others if pace.routers > 1 else 0)


def bears(
    pace: DecodePace,
    pods: Sequence[Outstanding],
    one: Load,
    *,
    underway: Load = NO_LOAD,
    tpot_s: float,
    late: bool,
    now: float,
) -> bool:
    """Return whether `pods` keep TPOT, their seats and their cache with `one` more.

    `underway` is what is on its way to them, and counts as if it were there. What a pod has beyond
    its seats waits there and slows down nobody. Requests of other routers are taken to be like this
    router's own. Pods that have nothing take whatever comes. Who could not keep TPOT alone waits
    for nothing: it is let in while there are seats. Prompts that the pods compute by themselves
    leave less time for steps.
    """
    seats = pace.max_num_seqs
    streams = own = underway.streams + one.streams
    tokens = underway.tokens + one.tokens
    output_tokens = underway.output_tokens + one.output_tokens
    for pod in pods:
        streams += min(seats, streams_at(pod, pace))
        own += pod.streams
        tokens += pod.tokens
        output_tokens += pod.output_tokens
    if streams <= one.streams:
        return True
    batch = streams / len(pods)
    kv_tokens = batch * held_tokens(tokens, output_tokens, streams=own)
    if batch > seats:
        return False
    if pace.kv_capacity_tokens is not None and kv_tokens > KV_SHARE * pace.kv_capacity_tokens:
        return False
    bound_s = (TPOT_SHARE_LATE if late else TPOT_SHARE) * tpot_s
    step_s = pace.seconds(batch, kv_tokens)
    moving = 1.0 - _stalled_share(pods, one, pace, tpot_s=tpot_s, now=now)
    if step_s <= bound_s * moving:
        return True
    # One of its answers: many at once would be a way around the gate.
    alone_tokens = held_tokens(one.tokens, one.output_tokens, streams=one.streams)
    return pace.seconds(1, alone_tokens) > bound_s


def _stalled_share(
    pods: Sequence[Outstanding], one: Load, pace: DecodePace, *, tpot_s: float, now: float
) -> float:
    """Return the share of time in which streams at `pods` stand still, on average."""
    mean = one.output_tokens / one.streams
    stalled = 0.0
    for pod in pods:
        if pod.stalls.begun:
            life_s = stream_life_s(pod, tpot_s=tpot_s, next_tokens=mean)
            stalled += pod.stalls.share(now, life_s=life_s, routers=pace.routers)
    return stalled / len(pods)
