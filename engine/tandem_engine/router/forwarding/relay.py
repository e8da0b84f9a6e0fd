"""Passes a decode pod's stream on, chunk by chunk, and takes note of its tokens."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from tandem_engine.router.forwarding.flight import Flight
from tandem_engine.router.forwarding.sink import Sink
from tandem_engine.router.forwarding.upstream import FailureReason, UpstreamFailure, fault_in_stream
from tandem_engine.router.forwarding.watchdog import Watchdog
from tandem_engine.router.openai.answers import StreamCount
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.openai.sse import SHAPE_ERRORS, Chunk, Events
from tandem_engine.router.peers.killers import Killers
from tandem_engine.router.peers.telling import Peers
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.health import Attempt
from tandem_engine.router.pods.kv_lease import Early
from tandem_engine.router.scheduling.request_queue import RequestQueue
from tandem_routing.verdict import Ending

_AFTER_DONE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Passes streams on."""

    fleet: EnginePods
    waiting: RequestQueue
    killers: Killers
    peers: Peers
    clock: Callable[[], float]

    async def run(
        self,
        flight: Flight,
        sink: Sink,
        response: aiohttp.ClientResponse,
        count: StreamCount,
        watchdog: Watchdog,
        *,
        attempt: Attempt,
        own_until_s: float | None,
    ) -> web.StreamResponse:
        """Pass a stream on; a first token is certainly the request's own until `own_until_s`."""
        events, timeline, clock = Events(), flight.timeline, self.clock
        health = attempt.pod.health
        idle_s, deadline_s = flight.settings.timeouts.idle_s, flight.deadline_s
        done = False
        early = None if own_until_s is None else Early(own_until_s)
        content = response.content
        while not done:
            data = await _next(content)
            if not data:
                raise UpstreamFailure(FailureReason.DISCONNECTED)
            payloads, fresh, done, broken = _read(events, count, data)
            if done and not count.output_tokens and flight.call.max_output_tokens != 0:
                # An engine that ends a stream at once counts the token that ends it.
                raise UpstreamFailure(FailureReason.EMPTY)
            if early is not None:
                payloads, early = early.passed_on(payloads, token=fresh or done, now=clock())
            # Until the client has taken it nothing is the engine's silence; the sink bounds that.
            watchdog.move(deadline_s + idle_s)
            if payloads:
                await sink.send(payloads)
            if fresh:
                health.progress_s = clock()
                now = health.progress_s - sink.stalled_s
                timeline.last_token_s = now
                if timeline.first_token_s is None:
                    timeline.first_token_s = now
                    self.fleet.ejection.first_token(attempt)
                    self.waiting.computed(flight.placement)
            if broken is not None:
                raise broken
            if timeline.first_token_s is None:
                until_s = flight.first_token_deadline_s + sink.stalled_s
                watchdog.move(until_s if early is None else min(until_s, early.until_s))
            elif not done:
                watchdog.move(min(clock() + idle_s, deadline_s))
        answer = await sink.finish()
        flight.ending = Ending.ANSWERED
        self.fleet.ejection.well(attempt)
        cleared = self.killers.answered(flight.call, credentials=flight.credentials)
        if cleared is not None:
            self.peers.tell_answered(cleared)
        # The end of the body frees the connection for the next request.
        watchdog.move(clock() + 2 * _AFTER_DONE_S)
        if not content.at_eof():
            with contextlib.suppress(UpstreamFailure, TimeoutError):
                async with asyncio.timeout(_AFTER_DONE_S):
                    await _next(content)
        return answer


def _read(
    events: Events, count: StreamCount, data: bytes
) -> tuple[list[bytes], bool, bool, ApiError | UpstreamFailure | None]:
    """Return what to pass on, whether it has new tokens, whether it ends, and how it is broken."""
    payloads: list[bytes] = []
    fresh = done = False
    try:
        for payload in events.feed(data):
            chunk = count.read(payload)
            if chunk.error or chunk.finish_reason == "abort":
                return payloads, fresh, done, _broken_by(chunk, payload)
            done = done or chunk.done
            fresh = fresh or chunk.tokens
            if chunk.payload is not None:
                payloads.append(chunk.payload)
    except SHAPE_ERRORS:
        return payloads, fresh, done, UpstreamFailure(FailureReason.MALFORMED)
    return payloads, fresh, done, None


async def _next(content: aiohttp.StreamReader) -> bytes:
    """Return what has come; nothing: the stream is at its end."""
    try:
        return await content.readany()
    except (aiohttp.ClientError, OSError) as error:
        raise UpstreamFailure(FailureReason.DISCONNECTED) from error


def _broken_by(chunk: Chunk, payload: bytes) -> ApiError | UpstreamFailure:
    """Return what an event that ends a stream early says of it."""
    if not chunk.error:
        return UpstreamFailure(FailureReason.ABORTED)
    return fault_in_stream(payload) or UpstreamFailure(FailureReason.STATUS)
