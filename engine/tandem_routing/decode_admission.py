"""Whether the decode pods can serve one more stream inside TPOT.

Beyond the largest batch that keeps TPOT, one more stream makes every stream late. So the router
lets it wait, and only the excess is late. The operator sends the speed of a decode pod.
"""

from collections.abc import Sequence
from typing import Protocol

from tandem_routing.outstanding import NO_LOAD, Load, Outstanding

TPOT_SHARE = 0.95
# A late request takes no place that a request on time may need in a moment.
TPOT_SHARE_LATE = 0.9
KV_SHARE = 0.95


class DecodePace(Protocol):
    """The speed of one decode pod, as the operator learned it."""

    @property
    def kv_capacity_tokens(self) -> float | None:
        """Return the tokens that its KV cache holds; `None`: not known."""

    @property
    def max_num_seqs(self) -> int:
        """Return the largest number of streams in its batch."""

    @property
    def routers(self) -> int:
        """Return the number of routers that send requests to it."""

    def seconds(self, streams: float, kv_tokens: float, /) -> float:
        """Return the time of a step with this many streams and cached tokens."""


def held_tokens(tokens: int, output_tokens: int, *, streams: int) -> float:
    """Return the mean cached tokens of a stream; `tokens` is the sum at the end of all streams.

    The cache of a stream grows from its prompt to its prompt and output.
    """
    return max(1.0, (tokens - 0.5 * output_tokens) / streams)


def stream_life_s(pod: Outstanding, *, tpot_s: float, next_tokens: float) -> float:
    """Return how long a stream at `pod` lasts; without streams, the next one of `next_tokens`.

    A prompt delays the streams that are there, not the next one.
    """
    tokens = pod.output_tokens / pod.streams if pod.streams else next_tokens
    return max(1.0, tokens) * tpot_s


def streams_at(pod: Outstanding, pace: DecodePace) -> int:
    """Return the streams of all routers at `pod`."""
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
    """Return whether `pods` keep TPOT, batch limit and KV cache with `one` more.

    `underway` is admitted load that has not reached the pods yet; it counts as if it had. Streams
    beyond the batch limit of a pod wait there and slow down no other stream. Requests of other
    routers are assumed to be like those of this router. Pods without streams take any request. A
    request that could not keep TPOT even alone is admitted while the batch has room. Prompts that
    the pods compute themselves leave less time for steps.
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
    """Return the mean share of time in which streams at `pods` wait for a prompt."""
    mean = one.output_tokens / one.streams
    stalled = 0.0
    for pod in pods:
        if pod.stalls.begun:
            life_s = stream_life_s(pod, tpot_s=tpot_s, next_tokens=mean)
            stalled += pod.stalls.share(now, life_s=life_s, routers=pace.routers)
    return stalled / len(pods)
