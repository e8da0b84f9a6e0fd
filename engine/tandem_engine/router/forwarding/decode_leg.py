"""Runs the decode leg of a request: the choice of the pod, the tries, and the result.

A leg is tried at most twice, and never again after the stream has begun. It is tried once more if
the only possible fault of the last try is the pull of KV blocks. KV parameters are used again only
if the first decode pod cannot have seen them. A pod that pulled the blocks frees them, and then
they can hold data of another request.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from tandem_engine.router.forwarding.failures import Failures, gateway_error, no_place
from tandem_engine.router.forwarding.flight import Accounts, Flight, LearnedByRouter
from tandem_engine.router.forwarding.kv_return import KvReturn
from tandem_engine.router.forwarding.relay import Relay
from tandem_engine.router.forwarding.silence import Silence
from tandem_engine.router.forwarding.sink import Sink
from tandem_engine.router.forwarding.upstream import FailureReason, Upstream, UpstreamFailure
from tandem_engine.router.forwarding.watchdog import Watchdog
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.pods.fleet import Deserted, EnginePods
from tandem_engine.router.pods.health import Attempt
from tandem_engine.router.pods.kv_lease import Handover, LeaseOver, Lost
from tandem_engine.router.pods.pod import Pod, Role
from tandem_engine.router.scheduling.placement import DecodeOnly
from tandem_engine.router.scheduling.places import Places
from tandem_routing.outstanding import Load
from tandem_routing.pod_choice import least_loaded
from tandem_routing.time_shares import Stage
from tandem_routing.verdict import Ending

_MOST_TRIES = 2
# No engine failed: none had room, or none began while it was waited for.
_REFUSED_LATE = frozenset({FailureReason.BUSY, FailureReason.SILENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeLeg:
    """Runs decode legs."""

    fleet: EnginePods
    places: Places
    upstream: Upstream
    accounts: Accounts
    failures: Failures
    kv_return: KvReturn
    relay: Relay
    silence: Silence
    clock: Callable[[], float]

    @property
    def learned(self) -> LearnedByRouter:
        """The learned values of the router."""
        return self.accounts.learned

    async def run(
        self, flight: Flight, sink: Sink, handover: Handover | None
    ) -> web.StreamResponse:
        """Serve a request from decode pods: at most two, and a third if a pull failed.

        `handover` holds the KV blocks of its prefill pod. Raises `LeaseOver` if their lease has
        ended.
        """
        failed = flight.given_up
        while True:
            pod = await self._pod(flight, handover, avoid=failed)
            if handover is not None and self.clock() >= handover.until_s:
                raise LeaseOver(Lost.HELD)
            if handover is not None and pod.endpoint.revision != handover.revision:
                self.kv_return.unwanted(flight, handover)
                handover = None
                self._fall_back(flight, DecodeOnly.NO_PAIR)
            self.failures.refuse_killer(flight)
            flight.tries += 1
            flight.decode_pod = pod.name
            answer_tokens = self.learned.expected_output_tokens(flight)
            load = Load(
                flight.prompt_tokens + answer_tokens,
                streams=flight.streams,
                output_tokens=answer_tokens,
            )
            pod.enter(load, self.clock())
            attempt = self.fleet.ejection.begin(
                pod,
                tokens=flight.prompt_tokens,
                pulls=handover is not None,
                source=None if handover is None else handover.prefill,
            )
            self.places.arrived(flight.placement)
            try:
                return await self._once(flight, sink, attempt, load, handover)
            except UpstreamFailure as failure:
                if handover is not None and failure.never_sent:
                    handover.seen_by = None
                self.failures.failed(attempt, failure)
                # Before the client is told: it may ask again at once, and at another router.
                ends_here = await self.failures.ends_here(flight, pod, failure)
                if sink.begun:
                    return await sink.fail(gateway_error(failure))
                # A pull that failed says nothing of what the pod computes by itself.
                pulled = handover is not None and handover.seen_by is not None
                if ends_here or (flight.tries >= _MOST_TRIES and not pulled):
                    refused = failure.reason in _REFUSED_LATE
                    flight.ending = Ending.SHED if refused else Ending.FAILED
                    raise gateway_error(failure) from failure
                self.accounts.metrics.retries.labels(failure.reason.value).inc()
                failed = pod
                if pulled and handover is not None:
                    self.kv_return.unwanted(flight, handover)
                    handover = None
                    self._fall_back(flight, DecodeOnly.RETRY)
            finally:
                self.fleet.ejection.close(attempt)

    def _fall_back(self, flight: Flight, reason: DecodeOnly) -> None:
        flight.decode_only = reason
        flight.timeline.transfer_s = None
        self.accounts.metrics.decode_only.labels(reason.value).inc()

    async def _pod(self, flight: Flight, handover: Handover | None, *, avoid: Pod | None) -> Pod:
        """Wait for a decode pod, and return one that can pull the KV blocks if possible."""
        revision = None if handover is None else handover.revision
        chosen = flight.placement.decode
        if chosen is not None and chosen is not avoid and chosen.usable:
            return chosen
        pod = self._usable(revision, avoid=avoid)
        if pod is not None:
            return pod
        stage = Stage.WHOLE if handover is None else Stage.DECODE
        try:
            async with asyncio.timeout_at(
                self.learned.begin_by_s(flight, stage=stage, now=self.clock())
            ):
                while pod is None:
                    if self.fleet.deserted:
                        raise Deserted
                    await self.fleet.change()
                    pod = self._usable(revision, avoid=avoid)
                return pod
        except (TimeoutError, Deserted):
            flight.ending = Ending.SHED
            raise no_place(self.fleet) from None

    def _usable(self, revision: str | None, *, avoid: Pod | None) -> Pod | None:
        """Return the best decode pod now, one of `revision` if possible."""
        pods = self.fleet.usable(Role.DECODE)
        same = [pod for pod in pods if pod.endpoint.revision == revision]
        choice = same or pods
        choice = (
            [pod for pod in choice if pod is not avoid]
            or [pod for pod in pods if pod is not avoid]
            or choice
        )
        # A pod that computes a prompt makes no first token until that is done.
        return least_loaded([pod for pod in choice if not pod.stalls.computing] or choice)

    async def _once(
        self, flight: Flight, sink: Sink, attempt: Attempt, load: Load, handover: Handover | None
    ) -> web.StreamResponse:
        """Serve from the pod of the attempt, where `load` counts until this returns."""
        pod, count = attempt.pod, flight.token_count()
        attempt.tokens_made = lambda: count.output_tokens
        began = self.clock()
        kv_params, until_s = None, flight.first_token_deadline_s
        if handover is not None:
            kv_params, until_s = handover.kv_params, min(until_s, handover.until_s)
            handover.seen_by = pod
        self.accounts.ledger.leg_began(pod)
        try:
            with Watchdog(self.upstream.alarms, until_s, flight.task) as watchdog:
                attempt.give_up = lambda: not sink.begun and watchdog.end()
                answer = await self.upstream.decode(
                    pod,
                    path=flight.call.kind.path,
                    body=flight.call.decode_body(kv_params),
                    headers=flight.headers,
                    connect_s=flight.settings.timeouts.connect_s,
                )
                try:
                    return await self.relay.run(
                        flight,
                        sink,
                        answer,
                        count,
                        watchdog,
                        attempt=attempt,
                        own_until_s=None if handover is None else handover.until_s,
                    )
                finally:
                    # If a part is unread, the engine stops this work.
                    answer.release()
        except TimeoutError:
            if attempt.given_up:
                raise UpstreamFailure(FailureReason.SILENT) from None
            if until_s < flight.first_token_deadline_s and flight.timeline.last_token_s is None:
                self.failures.silent(flight, attempt, silent_s=self.clock() - began)
                flight.given_up = pod
                raise LeaseOver(Lost.SILENT) from None
            stage = Stage.WHOLE if handover is None else Stage.DECODE
            return await self.silence.ended(flight, sink, attempt, began=began, stage=stage)
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
            self.places.release(pod, load)
            self.accounts.ledger.leg_ended(pod)
            flight.output_tokens = count.output_tokens
            flight.longest_tokens = count.longest_tokens
            self.accounts.prompt_known(
                flight, tokens=count.prompt_tokens, cached=count.cached_tokens
            )
            if not flight.timeline.prefill_started:
                flight.timeline.service_s = self.learned.service_of(pod.endpoint.revision, flight)
            if flight.timeline.first_token_s is not None:
                self._served(flight, pod, began, handover)

    def _served(self, flight: Flight, pod: Pod, began: float, handover: Handover | None) -> None:
        first, pulled = flight.timeline.first_token_s, handover is not None
        if handover is not None:
            handover.over = True
        if pulled and first is not None:
            self.learned.decode_first_s.add(first - began)
        if flight.decode_only is DecodeOnly.OVERFLOW and first is not None:
            self.learned.overflowed(
                pod.endpoint.revision, first_s=first - began, service_s=flight.timeline.service_s
            )
        cached = flight.cached_tokens or 0
        self.accounts.ledger.leg_served(
            pod,
            prompt_tokens=flight.prompt_tokens,
            cached_tokens=0 if pulled else cached,
            computed_tokens=0 if pulled else flight.prompt_tokens - cached,
            output_tokens=flight.output_tokens,
        )
