"""Takes one request through queue, prefill leg and decode leg, each with its deadline.

Each leg is tried at most twice, and never again once the stream has begun; a decode leg once more
where all that its last try may have failed at is the pull of KV blocks. KV parameters are used
a second time only if the first decode pod cannot have seen them: a pod that pulled the blocks
frees them, and they may hold another request's data by then. For the same reason they are used no
longer than their lease: then the request goes through the queue and its legs anew.
"""

import asyncio
import logging
import math
from collections.abc import Callable

from aiohttp import web

from tandem_engine.router.forwarding.failures import Failures, gateway_error
from tandem_engine.router.forwarding.flight import Accounts, Flight
from tandem_engine.router.forwarding.kv_return import KvReturn
from tandem_engine.router.forwarding.prefill_leg import PrefillLeg
from tandem_engine.router.forwarding.relay import Relay
from tandem_engine.router.forwarding.silence import Silence
from tandem_engine.router.forwarding.sink import Sink
from tandem_engine.router.forwarding.upstream import FailureReason, Upstream, UpstreamFailure
from tandem_engine.router.forwarding.watchdog import Watchdog
from tandem_engine.router.openai.errors import ApiError, too_busy, unavailable
from tandem_engine.router.peers.killers import Killers
from tandem_engine.router.peers.telling import Peers
from tandem_engine.router.pods.fleet import Deserted, EnginePods
from tandem_engine.router.pods.health import Attempt
from tandem_engine.router.pods.kv_lease import Handover, LeaseOver, Lost
from tandem_engine.router.pods.pod import Pod, Role
from tandem_engine.router.scheduling.placement import DecodeOnly, PrefillPlacement
from tandem_engine.router.scheduling.request_queue import QueueFull, RequestQueue
from tandem_engine.router.scheduling.waiter import Waiter
from tandem_routing.outstanding import Load
from tandem_routing.pod_choice import least_loaded
from tandem_routing.time_shares import Stage, begin_by_s
from tandem_routing.verdict import Ending

_MOST_TRIES = 2
_MOST_LEASES = 2
_NO_POD_RETRY_S = 5
# No engine failed: none had room, or none began while it was waited for.
_REFUSED_LATE = frozenset({FailureReason.BUSY, FailureReason.SILENT})
_LONGEST_RETRY_S = 60

logger = logging.getLogger(__name__)


class Forwarder:
    """Serves accepted requests."""

    def __init__(
        self,
        *,
        fleet: EnginePods,
        waiting: RequestQueue,
        upstream: Upstream,
        accounts: Accounts,
        killers: Killers,
        peers: Peers,
        clock: Callable[[], float],
    ) -> None:
        self._fleet = fleet
        self._waiting = waiting
        self._upstream = upstream
        self._accounts = accounts
        self._learned = accounts.learned
        self._clock = clock
        self._killers = killers
        self._failures = Failures(fleet=fleet, upstream=upstream, killers=killers, peers=peers)
        self._relay = Relay(fleet=fleet, waiting=waiting, killers=killers, peers=peers, clock=clock)
        self._silence = Silence(failures=self._failures, learned=accounts.learned, clock=clock)
        self._kv_return = KvReturn(upstream=upstream, metrics=accounts.metrics)
        self._prefill_leg = PrefillLeg(
            fleet=fleet,
            waiting=waiting,
            upstream=upstream,
            accounts=accounts,
            failures=self._failures,
            kv_return=self._kv_return,
            clock=clock,
        )

    async def serve(self, flight: Flight, sink: Sink) -> web.StreamResponse:
        """Answer one request; `flight.ending` says how it went, also when this raises."""
        self._refuse_killer(flight)
        while True:
            placement = flight.placement = await self._queue(flight)
            try:
                return await self._legs(flight, sink, placement)
            except LeaseOver as over:
                self._anew(flight, over)

    async def _legs(
        self, flight: Flight, sink: Sink, placement: PrefillPlacement
    ) -> web.StreamResponse:
        """Serve a request from where it was placed; raises `LeaseOver` where it has to go again."""
        flight.decode_only = placement.decode_only
        if flight.leases_lost == _MOST_LEASES:
            flight.decode_only = DecodeOnly.KV_EXPIRED
        handover: Handover | None = None
        try:
            if placement.prefill is not None:
                handover = await self._prefill_leg.run(flight, placement.prefill, placement.load)
            usable = handover
            if usable is not None and self._clock() >= usable.until_s:
                # A leg that outlasts the lease will do so again.
                self._let_go(flight, usable)
                usable, flight.decode_only = None, DecodeOnly.KV_EXPIRED
            if flight.decode_only is not None:
                self._accounts.metrics.decode_only.labels(flight.decode_only.value).inc()
            return await self._decode(flight, sink, usable)
        finally:
            self._waiting.arrived(placement)
            self._waiting.computed(placement)
            if handover is not None:
                self._let_go(flight, handover)

    def _let_go(self, flight: Flight, handover: Handover) -> None:
        self._kv_return.unwanted(handover, connect_s=flight.settings.timeouts.connect_s)

    def _anew(self, flight: Flight, over: LeaseOver) -> None:
        """Make a request ready to be placed again: no prefill pod was what kept it."""
        timeline = flight.timeline
        flight.leases_lost += 1
        self._accounts.metrics.kv_expired.labels(over.how.value).inc()
        if timeline.prefill_ended_s is not None:
            timeline.held_s += self._clock() - timeline.prefill_ended_s
        timeline.prefill_started, timeline.prefill_ended_s = False, None
        timeline.transfer_s = None

    def _refuse_killer(self, flight: Flight) -> None:
        try:
            self._killers.check(flight.call, credentials=flight.credentials)
        except ApiError:
            flight.ending = Ending.REFUSED
            self._accounts.metrics.killers.inc()
            raise

    async def _queue(self, flight: Flight) -> PrefillPlacement:
        call = flight.call
        waiter = Waiter(
            deadline_s=flight.timeline.received_s
            + flight.settings.slo.ttft_bound_s(flight.prompt_tokens),
            tokens=flight.prompt_tokens,
            expected=lambda: self._learned.expected_of(flight),
            split=call.split and flight.leases_lost < _MOST_LEASES,
        )
        held_s = self._without_decode_s()
        try:
            stage = Stage.PREFILL if waiter.split else Stage.WHOLE
            async with asyncio.timeout_at(self._begin_by_s(flight, stage)):
                placement = await self._waiting.admit(waiter)
        except QueueFull:
            flight.ending = Ending.SHED
            raise too_busy(
                "The pool has reached its limit of waiting requests; try again later.",
                code="queue_full",
                retry_after_s=self._drain_time_s(flight),
            ) from None
        except (TimeoutError, Deserted):
            flight.ending = Ending.SHED
            raise self._no_place() from None
        finally:
            flight.timeline.held_s += self._without_decode_s() - held_s
        flight.timeline.dispatched_s = self._clock()
        try:
            # Copies of it may have ended engines while it waited.
            self._refuse_killer(flight)
        except ApiError:
            self._waiting.give_back(placement)
            raise
        return placement

    def _begin_by_s(self, flight: Flight, stage: Stage) -> float:
        """Return until when a request may wait before `stage`: later it would be sent in vain."""
        needed = self._learned.needed_of(flight, stage=stage)
        return begin_by_s(flight.first_token_deadline_s, needed=needed, now=self._clock())

    def _without_decode_s(self) -> float:
        """Return for how long, in all, requests waited for what no prefill pod could give."""
        now = self._clock()
        return self._fleet.without_decode_s(now) + self._waiting.held_s(now)

    def _no_place(self) -> ApiError:
        missing = not self._fleet.usable(Role.DECODE)
        return unavailable(
            "No decode pod became ready in time; try again later."
            if missing
            else "The request waited too long for a prefill pod; try again later.",
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
        self, flight: Flight, sink: Sink, handover: Handover | None
    ) -> web.StreamResponse:
        failed = flight.given_up
        while True:
            pod = await self._decode_pod(flight, handover, avoid=failed)
            if handover is not None and self._clock() >= handover.until_s:
                raise LeaseOver(Lost.HELD)
            if handover is not None and pod.endpoint.revision != handover.revision:
                self._let_go(flight, handover)
                handover = None
                self._fall_back(flight, DecodeOnly.NO_PAIR)
            self._refuse_killer(flight)
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
                pulls=handover is not None,
                source=None if handover is None else handover.prefill,
            )
            self._waiting.arrived(flight.placement)
            try:
                return await self._decode_once(flight, sink, attempt, load, handover)
            except UpstreamFailure as failure:
                if handover is not None and failure.never_sent:
                    handover.seen_by = None
                self._failures.failed(attempt, failure)
                error = gateway_error(failure)
                # Before the client is told: it may ask again at once, and at another router.
                ends_here = await self._failures.ends_here(flight, pod, failure)
                if sink.begun:
                    return await sink.fail(error)
                # A pull that failed says nothing of what the pod computes by itself.
                pulled = handover is not None and handover.seen_by is not None
                if ends_here or (flight.tries >= _MOST_TRIES and not pulled):
                    refused = failure.reason in _REFUSED_LATE
                    flight.ending = Ending.SHED if refused else Ending.FAILED
                    raise error from failure
                self._accounts.metrics.retries.labels(failure.reason.value).inc()
                failed = pod
                if pulled and handover is not None:
                    self._let_go(flight, handover)
                    handover = None
                    self._fall_back(flight, DecodeOnly.RETRY)
            finally:
                self._fleet.ejection.close(attempt)

    def _fall_back(self, flight: Flight, reason: DecodeOnly) -> None:
        flight.decode_only = reason
        flight.timeline.transfer_s = None
        self._accounts.metrics.decode_only.labels(reason.value).inc()

    async def _decode_pod(
        self, flight: Flight, handover: Handover | None, *, avoid: Pod | None
    ) -> Pod:
        """Return the decode pod to use, one that can pull what there is if possible; waits."""
        revision = None if handover is None else handover.revision
        chosen = flight.placement.decode
        if chosen is not None and chosen is not avoid and chosen.usable:
            return chosen
        stage = Stage.WHOLE if handover is None else Stage.DECODE
        try:
            async with asyncio.timeout_at(self._begin_by_s(flight, stage)):
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
        self, flight: Flight, sink: Sink, attempt: Attempt, load: Load, handover: Handover | None
    ) -> web.StreamResponse:
        """Serve from the attempt's pod, where `load` is counted until this is over."""
        pod, count = attempt.pod, flight.token_count()
        attempt.tokens_made = lambda: count.output_tokens
        began = self._clock()
        kv_params, until_s = None, flight.first_token_deadline_s
        if handover is not None:
            kv_params, until_s = handover.kv_params, min(until_s, handover.until_s)
            handover.seen_by = pod
        self._accounts.ledger.leg_began(pod)
        try:
            async with Watchdog(until_s) as watchdog:
                attempt.give_up = lambda: not sink.begun and watchdog.end()
                response = await self._upstream.decode(
                    pod,
                    path=flight.call.kind.path,
                    body=flight.call.decode_body(kv_params),
                    headers=flight.headers,
                    connect_s=flight.settings.timeouts.connect_s,
                )
                try:
                    return await self._relay.run(
                        flight,
                        sink,
                        response,
                        count,
                        watchdog,
                        attempt=attempt,
                        own_until_s=None if handover is None else handover.until_s,
                    )
                finally:
                    # Closed, not released: the engine stops work nobody reads.
                    response.release() if response.content.at_eof() else response.close()
        except TimeoutError:
            if attempt.given_up:
                raise UpstreamFailure(FailureReason.SILENT) from None
            if until_s < flight.first_token_deadline_s and flight.timeline.last_token_s is None:
                self._failures.silent(flight, attempt, silent_s=self._clock() - began)
                flight.given_up = pod
                raise LeaseOver(Lost.SILENT) from None
            stage = Stage.WHOLE if handover is None else Stage.DECODE
            return await self._silence.ended(flight, sink, attempt, began=began, stage=stage)
        except LeaseOver:
            flight.given_up = pod
            raise
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
                flight.timeline.service_s = self._learned.service_of(pod.endpoint.revision, flight)
            if flight.timeline.first_token_s is not None:
                self._decode_served(flight, pod, began, handover)

    def _decode_served(
        self, flight: Flight, pod: Pod, began: float, handover: Handover | None
    ) -> None:
        first, pulled = flight.timeline.first_token_s, handover is not None
        if handover is not None:
            handover.over = True
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
