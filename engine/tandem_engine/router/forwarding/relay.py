"""Passes the stream of a decode pod on, chunk by chunk, and records its tokens."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiohttp import web

from tandem_engine.router.forwarding.engine_answer import EngineAnswer
from tandem_engine.router.forwarding.flight import Flight
from tandem_engine.router.forwarding.pump import Piece, Pump
from tandem_engine.router.forwarding.sink import Sink
from tandem_engine.router.forwarding.upstream import FailureReason, UpstreamFailure, following
from tandem_engine.router.forwarding.watchdog import Watchdog
from tandem_engine.router.openai.answers import StreamCount
from tandem_engine.router.peers.killers import Killers
from tandem_engine.router.peers.telling import Peers
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.health import Attempt, PodHealth
from tandem_engine.router.pods.kv_lease import Early
from tandem_engine.router.scheduling.places import Places
from tandem_routing.verdict import Ending

_AFTER_DONE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Passes streams on."""

    fleet: EnginePods
    places: Places
    killers: Killers
    peers: Peers
    clock: Callable[[], float]

    async def run(
        self,
        flight: Flight,
        sink: Sink,
        upstream: EngineAnswer,
        count: StreamCount,
        watchdog: Watchdog,
        *,
        attempt: Attempt,
        own_until_s: float | None,
    ) -> web.StreamResponse:
        """Pass a stream on; a first token until `own_until_s` surely belongs to the request."""
        timeline, clock = flight.timeline, self.clock
        going = _Going(flight, sink, watchdog, attempt.pod.health, clock)
        deadline_s = flight.deadline_s
        pump = Pump(upstream, count, sink, going.passed)
        early = None if own_until_s is None else Early(own_until_s)
        while True:
            ordinary = early is None and timeline.first_token_s is not None
            piece = await (pump.unusual() if ordinary else pump.next())
            payloads, done = piece.payloads, piece.done
            if done and not count.output_tokens and flight.call.max_output_tokens != 0:
                # An engine that ends a stream at once counts the token that ends it.
                raise UpstreamFailure(FailureReason.EMPTY)
            if early is not None:
                payloads, early = early.passed_on(payloads, token=piece.fresh or done, now=clock())
            # Until the client has taken it nothing is the engine's silence; the sink bounds that.
            watchdog.move(deadline_s + going.idle_s)
            last = await _sent(sink, piece, payloads)
            if piece.fresh:
                going.token(clock())
                if timeline.first_token_s is None:
                    timeline.first_token_s = timeline.last_token_s
                    self.fleet.ejection.first_token(attempt)
                    self.places.computed(flight.placement)
            if piece.broken is not None:
                raise piece.broken()
            if done:
                break
            going.alive(clock(), early)
        answer = await sink.finish(last)
        flight.ending = Ending.ANSWERED
        self.fleet.ejection.well(attempt)
        cleared = self.killers.answered(flight.call, credentials=flight.credentials)
        if cleared is not None:
            self.peers.tell_answered(cleared)
        # The end of the body frees the connection for the next request.
        if not upstream.at_end:
            watchdog.move(clock() + 2 * _AFTER_DONE_S)
            with contextlib.suppress(UpstreamFailure, TimeoutError):
                async with asyncio.timeout(_AFTER_DONE_S):
                    await following(upstream)
        return answer


class _Going:
    """Records the progress of a stream."""

    def __init__(
        self,
        flight: Flight,
        sink: Sink,
        watchdog: Watchdog,
        health: PodHealth,
        clock: Callable[[], float],
    ) -> None:
        self._flight = flight
        self._timeline = flight.timeline
        self._sink = sink
        self._watchdog = watchdog
        self._health = health
        self._clock = clock
        self._deadline_s = flight.deadline_s
        self.idle_s = flight.settings.timeouts.idle_s

    def passed(self, fresh: bool) -> None:
        """Record a piece that was sent to the client without a wait."""
        # Once for each token: as `token` and `alive` do, without their calls.
        now = self._clock()
        if fresh:
            self._health.progress_s = now
            self._timeline.last_token_s = now - self._sink.stalled_s
        until_s = now + self.idle_s
        self._watchdog.move(until_s if until_s < self._deadline_s else self._deadline_s)

    def token(self, now: float) -> None:
        """Record a token."""
        self._health.progress_s = now
        self._timeline.last_token_s = now - self._sink.stalled_s

    def alive(self, now: float, early: Early | None) -> None:
        """Restart the engine's time limit for the next piece."""
        flight = self._flight
        if flight.timeline.first_token_s is not None:
            self._watchdog.move(min(self._deadline_s, now + self.idle_s))
            return
        until_s = flight.first_token_deadline_s + self._sink.stalled_s
        self._watchdog.move(until_s if early is None else min(until_s, early.until_s))


async def _sent(sink: Sink, piece: Piece, payloads: list[bytes]) -> Sequence[bytes]:
    """Send the payloads of a piece; return those that leave with the end of the answer."""
    if piece.done and piece.broken is None and sink.last_with_end:
        return payloads
    if payloads:
        await sink.send(payloads)
    elif piece.passed_on:
        await sink.taken()
    return ()
