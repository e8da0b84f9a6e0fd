"""Takes one request through queue, prefill leg and decode leg, each with its deadline.

Each leg is tried at most twice, and never again once the stream has begun. KV parameters are used
a second time only if the first decode pod cannot have seen them: a pod that pulled the blocks
frees them, and they may hold another request's data by then.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
from aiohttp import web

from tandem_engine.router.errors import ApiError, too_busy, unavailable
from tandem_engine.router.fleet import Deserted, Fleet
from tandem_engine.router.flight import Accounts, Flight
from tandem_engine.router.health import Attempt
from tandem_engine.router.killers import Killers
from tandem_engine.router.line import Waiter
from tandem_engine.router.placement import DecodeOnly, Placement
from tandem_engine.router.pod import Load, Pod, Role, least_loaded
from tandem_engine.router.prefill_leg import PrefillLeg
from tandem_engine.router.sink import Sink
from tandem_engine.router.sse import SHAPE_ERRORS, Chunk, Events, TokenCount
from tandem_engine.router.suspicion import Suspicion, gateway_error
from tandem_engine.router.truth import Ending
from tandem_engine.router.upstream import Reason, Upstream, UpstreamFailure, fault_in_stream
from tandem_engine.router.waiting import QueueFull, Waiting
from tandem_engine.router.watchdog import Watchdog

_MOST_TRIES = 2
_AFTER_DONE_S = 1.0
_NO_POD_RETRY_S = 5
_LONGEST_RETRY_S = 60

logger = logging.getLogger(__name__)


class Forwarder:
    """Serves accepted requests."""

    def __init__(
        self,
        *,
        fleet: Fleet,
        waiting: Waiting,
        upstream: Upstream,
        accounts: Accounts,
        clock: Callable[[], float],
    ) -> None:
        self._fleet = fleet
        self._waiting = waiting
        self._upstream = upstream
        self._accounts = accounts
        self._learned = accounts.learned
        self._clock = clock
        self._killers = Killers(clock)
        self._suspicion = Suspicion(fleet=fleet, upstream=upstream, killers=self._killers)
        self._prefill_leg = PrefillLeg(
            fleet=fleet,
            waiting=waiting,
            upstream=upstream,
            accounts=accounts,
            suspicion=self._suspicion,
            clock=clock,
        )

    async def serve(self, flight: Flight, sink: Sink) -> web.StreamResponse:
        """Answer one request; `flight.ending` says how it went, also when this raises."""
        self._refuse_killer(flight)
        placement = flight.placement = await self._queue(flight)
        flight.decode_only = placement.decode_only
        try:
            pod, answer = placement.prefill, None
            if pod is not None:
                answer = await self._prefill_leg.run(flight, pod, placement.load)
            if flight.decode_only is not None:
                self._accounts.metrics.decode_only.labels(flight.decode_only.value).inc()
            kv_params, revision = None, None
            if answer is not None:
                kv_params, revision = answer[0].kv_params, answer[1]
            return await self._decode(flight, sink, kv_params, revision)
        finally:
            self._waiting.arrived(placement)
            self._waiting.computed(placement)

    def _refuse_killer(self, flight: Flight) -> None:
        try:
            self._killers.check(flight.call, credentials=flight.headers.get("Authorization"))
        except ApiError:
            flight.ending = Ending.REFUSED
            self._accounts.metrics.killers.inc()
            raise

    async def _queue(self, flight: Flight) -> Placement:
        call = flight.call
        waiter = Waiter(
            deadline_s=flight.timeline.received_s
            + flight.settings.slo.ttft_bound_s(flight.prompt_tokens),
            tokens=flight.prompt_tokens,
            expected=lambda: self._learned.expected(flight),
            split=call.split,
        )
        held_s = self._without_decode_s()
        try:
            async with asyncio.timeout_at(flight.first_token_deadline_s):
                placement = await self._waiting.admit(waiter)
        except QueueFull:
            flight.ending = Ending.SHED
            raise too_busy(
                "The pool is at its limit of waiting requests; try again later.",
                code="queue_full",
                retry_after_s=self._drain_time_s(flight),
            ) from None
        except (TimeoutError, Deserted):
            flight.ending = Ending.SHED
            raise self._no_place() from None
        finally:
            flight.timeline.held_s += self._without_decode_s() - held_s
        flight.timeline.dispatched_s = self._clock()
        return placement

    def _without_decode_s(self) -> float:
        """Return for how long, in all, requests waited for what no prefill pod could give."""
        now = self._clock()
        return self._fleet.without_decode_s(now) + self._waiting.held_s(now)

    def _no_place(self) -> ApiError:
        missing = not self._fleet.usable(Role.DECODE)
        return unavailable(
            "No decode pod became ready in time; try again later."
            if missing
            else "The request waited as long as it may for a prefill pod; try again later.",
            code="no_decode_pod" if missing else "queue_timeout",
            retry_after_s=_NO_POD_RETRY_S,
        )

    def _drain_time_s(self, flight: Flight) -> int:
        """Return a guess at how long the queue in front of a new request will take."""
        pods = self._fleet.usable(Role.PREFILL)
        at_once = max(1, sum(max(1, pod.requests) for pod in pods))
        leg_s = self._learned.prefill_leg_s.value or 1.0
        return min(_LONGEST_RETRY_S, max(1, math.ceil(self._waiting.requests * leg_s / at_once)))

    async def _decode(
        self, flight: Flight, sink: Sink, kv_params: Any, revision: str | None
    ) -> web.StreamResponse:
        failed: Pod | None = None
        while True:
            pod = await self._decode_pod(flight, revision, avoid=failed)
            if revision is not None and pod.endpoint.revision != revision:
                kv_params, revision = None, None
                self._fall_back(flight, DecodeOnly.NO_PAIR)
            flight.tries += 1
            flight.decode_pod = pod.name
            answer_tokens = self._learned.expected_output_tokens(flight)
            load = Load(
                flight.prompt_tokens + answer_tokens,
                streams=flight.streams,
                output_tokens=answer_tokens,
            )
            pod.enter(load, self._clock())
            attempt = self._fleet.ejection.begin(
                pod,
                tokens=flight.prompt_tokens,
                pulls=kv_params is not None,
                source=self._fleet.find(flight.prefill_pod) if kv_params is not None else None,
            )
            self._waiting.arrived(flight.placement)
            try:
                return await self._decode_once(flight, sink, attempt, load, kv_params)
            except UpstreamFailure as failure:
                self._suspicion.failed(attempt, failure)
                error = gateway_error(failure)
                if sink.begun:
                    try:
                        return await sink.fail(error)
                    finally:
                        await self._suspicion.ends_here(flight, pod, failure)
                ends_here = await self._suspicion.ends_here(flight, pod, failure)
                if ends_here or flight.tries == _MOST_TRIES:
                    busy = failure.reason is Reason.BUSY
                    flight.ending = Ending.SHED if busy else Ending.FAILED
                    raise error from failure
                self._accounts.metrics.retries.labels(failure.reason.value).inc()
                failed = pod
                if kv_params is not None and not failure.never_sent:
                    kv_params, revision = None, None
                    self._fall_back(flight, DecodeOnly.RETRY)
            finally:
                self._fleet.ejection.close(attempt)

    def _fall_back(self, flight: Flight, reason: DecodeOnly) -> None:
        flight.decode_only = reason
        flight.timeline.transfer_s = None
        self._accounts.metrics.decode_only.labels(reason.value).inc()

    async def _decode_pod(self, flight: Flight, revision: str | None, *, avoid: Pod | None) -> Pod:
        """Return the decode pod to use, of `revision` if there is one; waits for any."""
        chosen = flight.placement.decode
        if chosen is not None and chosen is not avoid and chosen.usable:
            return chosen
        try:
            async with asyncio.timeout_at(flight.first_token_deadline_s):
                while True:
                    pods = self._fleet.usable(Role.DECODE)
                    same = [pod for pod in pods if pod.endpoint.revision == revision]
                    choice = same or pods
                    choice = (
                        [pod for pod in choice if pod is not avoid]
                        or [pod for pod in pods if pod is not avoid]
                        or choice
                    )
                    # A pod that computes a prompt makes no first token until that is done.
                    pod = least_loaded(
                        [pod for pod in choice if not pod.stalls.computing] or choice
                    )
                    if pod is not None:
                        return pod
                    if self._fleet.deserted:
                        raise Deserted
                    await self._fleet.change()
        except (TimeoutError, Deserted):
            flight.ending = Ending.SHED
            raise self._no_place() from None

    async def _decode_once(
        self, flight: Flight, sink: Sink, attempt: Attempt, load: Load, kv_params: Any
    ) -> web.StreamResponse:
        """Serve from the attempt's pod, where `load` is counted until this is over."""
        pod, count = attempt.pod, flight.token_count()
        attempt.tokens_made = lambda: count.output_tokens
        began = self._clock()
        self._accounts.ledger.leg_began(pod)
        try:
            async with Watchdog(flight.first_token_deadline_s) as watchdog:
                attempt.give_up = lambda: not sink.begun and watchdog.end()
                response = await self._upstream.decode(
                    pod,
                    path=flight.call.kind.path,
                    body=flight.call.decode_body(kv_params),
                    headers=flight.headers,
                    connect_s=flight.settings.timeouts.connect_s,
                )
                try:
                    return await self._relay(
                        flight, sink, response, count, watchdog, attempt=attempt
                    )
                finally:
                    # Closed, not released: the engine stops work nobody reads.
                    response.release() if response.content.at_eof() else response.close()
        except TimeoutError:
            if attempt.given_up:
                raise UpstreamFailure(Reason.SILENT) from None
            return await self._timed_out(flight, sink, attempt, began=began)
        except ApiError as error:
            if error.status < 500:
                flight.ending = Ending.REFUSED
            if sink.begun:
                return await sink.fail(error)
            raise
        finally:
            self._waiting.release(pod, load)
            self._accounts.ledger.leg_ended(pod)
            flight.output_tokens = count.output_tokens
            flight.longest_tokens = count.longest_tokens
            self._accounts.prompt_known(
                flight, tokens=count.prompt_tokens, cached=count.cached_tokens
            )
            if not flight.timeline.prefill_started:
                flight.timeline.service_s = self._learned.service_s(pod.endpoint.revision, flight)
            if flight.timeline.first_token_s is not None:
                self._decode_served(flight, pod, began, pulled=kv_params is not None)

    def _decode_served(self, flight: Flight, pod: Pod, began: float, *, pulled: bool) -> None:
        first = flight.timeline.first_token_s
        if pulled and first is not None:
            self._learned.decode_first_s.add(first - began)
        if flight.decode_only is DecodeOnly.OVERFLOW and first is not None:
            self._learned.overflowed(
                pod.endpoint.revision, first_s=first - began, service_s=flight.timeline.service_s
            )
        cached = flight.cached_tokens or 0
        self._accounts.ledger.leg_served(
            pod,
            prompt_tokens=flight.prompt_tokens,
            cached_tokens=0 if pulled else cached,
            computed_tokens=0 if pulled else flight.prompt_tokens - cached,
            output_tokens=flight.output_tokens,
        )

    async def _timed_out(
        self, flight: Flight, sink: Sink, attempt: Attempt, *, began: float
    ) -> web.StreamResponse:
        last_s = flight.timeline.last_token_s
        started = last_s is not None
        heard_s = began if last_s is None else last_s + sink.stalled_s
        self._suspicion.silent(flight, attempt, silent_s=self._clock() - heard_s)
        flight.ending = Ending.FAILED if started else Ending.TIMED_OUT
        logger.warning(
            "engine pod was silent for too long",
            extra={
                "pod": attempt.pod.name,
                "phase": "between tokens" if started else "first token",
            },
        )
        error = ApiError(
            504,
            "The engine stopped sending in the middle of the answer."
            if started
            else "No first token came in time.",
            kind="server_error",
            code="idle_timeout" if started else "first_token_timeout",
        )
        if sink.begun:
            return await sink.fail(error)
        raise error

    async def _relay(
        self,
        flight: Flight,
        sink: Sink,
        response: aiohttp.ClientResponse,
        count: TokenCount,
        watchdog: Watchdog,
        *,
        attempt: Attempt,
    ) -> web.StreamResponse:
        events, timeline, clock = Events(), flight.timeline, self._clock
        health = attempt.pod.health
        idle_s, deadline_s = flight.settings.timeouts.idle_s, flight.deadline_s
        done = False
        chunks = response.content.iter_any()
        while not done:
            data = await _next(chunks)
            if not data:
                raise UpstreamFailure(Reason.DISCONNECTED)
            payloads, fresh = [], False
            broken: ApiError | UpstreamFailure | None = None
            try:
                for payload in events.feed(data):
                    chunk = count.read(payload)
                    if chunk.error or chunk.finish_reason == "abort":
                        broken = _broken_by(chunk, payload)
                        break
                    done = done or chunk.done
                    fresh = fresh or chunk.tokens
                    if chunk.payload is not None:
                        payloads.append(chunk.payload)
            except SHAPE_ERRORS:
                broken = UpstreamFailure(Reason.MALFORMED)
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
                    self._fleet.ejection.first_token(attempt)
                    self._waiting.computed(flight.placement)
            if broken is not None:
                raise broken
            if timeline.first_token_s is None:
                watchdog.move(flight.first_token_deadline_s + sink.stalled_s)
            elif not done:
                watchdog.move(min(clock() + idle_s, deadline_s))
        answer = await sink.finish()
        flight.ending = Ending.ANSWERED
        self._fleet.ejection.well(attempt)
        self._killers.answered(flight.call, credentials=flight.headers.get("Authorization"))
        # The end of the body frees the connection for the next request.
        watchdog.move(clock() + 2 * _AFTER_DONE_S)
        with contextlib.suppress(UpstreamFailure, TimeoutError):
            async with asyncio.timeout(_AFTER_DONE_S):
                await _next(chunks)
        return answer


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    try:
        return await anext(chunks, None)
    except (aiohttp.ClientError, OSError) as error:
        raise UpstreamFailure(Reason.DISCONNECTED) from error


def _broken_by(chunk: Chunk, payload: bytes) -> ApiError | UpstreamFailure:
    """Return what an event that ends a stream early says of it."""
    if not chunk.error:
        return UpstreamFailure(Reason.ABORTED)
    return fault_in_stream(payload) or UpstreamFailure(Reason.STATUS)
