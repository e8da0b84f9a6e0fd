"""Takes one request through queue, prefill leg and decode leg, each with its deadline.

KV blocks are used no longer than their lease: then the request goes through the queue and its legs
anew.
"""

import math
from collections.abc import Callable

from aiohttp import web

from tandem_engine.router.forwarding.decode_leg import DecodeLeg
from tandem_engine.router.forwarding.failures import Failures, no_place, still_waking
from tandem_engine.router.forwarding.flight import Accounts, Flight
from tandem_engine.router.forwarding.kv_return import KvReturn
from tandem_engine.router.forwarding.prefill_leg import PrefillLeg
from tandem_engine.router.forwarding.relay import Relay
from tandem_engine.router.forwarding.silence import Silence
from tandem_engine.router.forwarding.sink import Sink
from tandem_engine.router.forwarding.upstream import Upstream
from tandem_engine.router.openai.errors import ApiError, too_busy
from tandem_engine.router.peers.killers import Killers
from tandem_engine.router.peers.telling import Peers
from tandem_engine.router.pods.fleet import Deserted, EnginePods
from tandem_engine.router.pods.kv_lease import Handover, LeaseOver
from tandem_engine.router.pods.pod import Role
from tandem_engine.router.scheduling.placement import DecodeOnly, PrefillPlacement
from tandem_engine.router.scheduling.request_queue import QueueFull, RequestQueue, TooLate
from tandem_engine.router.scheduling.waiter import Waiter
from tandem_routing.rank import Rank
from tandem_routing.time_shares import Stage, hold_for_wake_s
from tandem_routing.verdict import Ending

_MOST_LEASES = 2
_LONGEST_RETRY_S = 60


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
        self._accounts = accounts
        self._learned = accounts.learned
        self._clock = clock
        self._failures = Failures(
            fleet=fleet, upstream=upstream, killers=killers, peers=peers, metrics=accounts.metrics
        )
        self._kv_return = KvReturn(upstream=upstream, metrics=accounts.metrics)
        self._prefill_leg = PrefillLeg(
            fleet=fleet,
            places=waiting.places,
            upstream=upstream,
            accounts=accounts,
            failures=self._failures,
            kv_return=self._kv_return,
            clock=clock,
        )
        self._decode_leg = DecodeLeg(
            fleet=fleet,
            places=waiting.places,
            upstream=upstream,
            accounts=accounts,
            failures=self._failures,
            kv_return=self._kv_return,
            relay=Relay(
                fleet=fleet, places=waiting.places, killers=killers, peers=peers, clock=clock
            ),
            silence=Silence(failures=self._failures, learned=accounts.learned, clock=clock),
            clock=clock,
        )

    async def serve(self, flight: Flight, sink: Sink) -> web.StreamResponse:
        """Answer one request; `flight.ending` says how it went, also when this raises."""
        self._failures.refuse_killer(flight)
        while True:
            waiter = self._waiter(flight)
            try:
                placement = self._waiting.at_once(waiter) or await self._queue(flight, waiter)
                flight.placement = placement
                flight.timeline.dispatched_s = self._clock()
                try:
                    # Copies of it may have ended engines while it waited.
                    self._failures.refuse_killer(flight)
                    return await self._legs(flight, sink, placement)
                except LeaseOver as over:
                    self._anew(flight, over)
                finally:
                    self._leave(flight, waiter, placement)
            finally:
                if waiter.slo_class is not None:
                    first_token_s = flight.timeline.first_token_s
                    self._waiting.ended(waiter, first_token_s=first_token_s)

    async def _legs(
        self, flight: Flight, sink: Sink, placement: PrefillPlacement
    ) -> web.StreamResponse:
        """Serve a request from where it was placed; raises `LeaseOver` where it has to go again."""
        flight.decode_only = placement.decode_only
        if flight.leases_lost == _MOST_LEASES:
            flight.decode_only = DecodeOnly.KV_EXPIRED
        handover: Handover | None = None
        try:
            usable = handover = await self._prefill_leg.run(flight, placement)
            if usable is not None and self._clock() >= usable.until_s:
                # A leg that outlasts the lease will do so again.
                self._kv_return.unwanted(flight, usable)
                usable, flight.decode_only = None, DecodeOnly.KV_EXPIRED
            if flight.decode_only is not None:
                self._accounts.metrics.decode_only.labels(flight.decode_only.value).inc()
            return await self._decode_leg.run(flight, sink, usable)
        finally:
            if handover is not None:
                self._kv_return.unwanted(flight, handover)

    def _anew(self, flight: Flight, over: LeaseOver) -> None:
        """Make a request ready to be placed again: no prefill pod was what kept it."""
        timeline = flight.timeline
        flight.leases_lost += 1
        self._accounts.metrics.kv_expired.labels(over.how.value).inc()
        if timeline.prefill_ended_s is not None:
            timeline.held_s += self._clock() - timeline.prefill_ended_s
        timeline.prefill_started, timeline.prefill_ended_s = False, None
        timeline.transfer_s = None

    def _waiter(self, flight: Flight) -> Waiter:
        call = flight.call
        prefix, caches = flight.prefix(), self._waiting.caches
        wake_s = self._hold_for_wake(flight)
        waiter = Waiter(
            deadline_s=flight.timeline.received_s
            + wake_s
            + flight.slo.ttft_bound_s(flight.prompt_tokens),
            tokens=flight.prompt_tokens,
            expected=lambda: self._learned.expected_of(flight, caches.held(prefix)),
            split=call.split and flight.leases_lost < _MOST_LEASES,
            prefix=prefix,
            wake_s=wake_s,
            tenant=flight.tenant,
        )
        if (of := flight.slo_class) is not None:
            waiter.slo_class = of.name
            waiter.rank = Rank.of(guaranteed=of.guaranteed, priority=of.priority)
            # One that lost its lease has cost a prefill already.
            waiter.refuse_late = of.refuse_late and of.guaranteed and not flight.leases_lost
        return waiter

    async def _queue(self, flight: Flight, waiter: Waiter) -> PrefillPlacement:
        """Return a place, which the caller gives back."""
        wake_s = waiter.wake_s
        held_s, at_zero_s = self._without_decode_s(), self._fleet.at_zero_s(self._clock())
        try:
            stage = Stage.PREFILL if waiter.split else Stage.WHOLE
            return await self._waiting.admit(
                waiter,
                by_s=lambda: self._learned.begin_by_s(flight, stage=stage, now=self._clock()),
            )
        except QueueFull as full:
            flight.ending = Ending.SHED
            if full.at_once and flight.timeline.dispatched_s is None:
                self._waits_as_others(flight, wake_s)
            raise too_busy(
                "The pool has reached its limit of waiting requests; try again later.",
                code="queue_full",
                retry_after_s=self._drain_time_s(flight),
            ) from None
        except TooLate as late:
            flight.ending = Ending.TOO_LATE
            raise _too_late(flight, min(_LONGEST_RETRY_S, late.retry_after_s)) from None
        except (TimeoutError, Deserted):
            flight.ending = Ending.SHED
            if wake_s and self._fleet.at_zero:
                raise still_waking(self._wake_left_s(wake_s)) from None
            raise no_place(self._fleet) from None
        finally:
            waked_s = self._fleet.at_zero_s(self._clock()) - at_zero_s if wake_s else 0.0
            flight.timeline.wake_s += waked_s
            flight.timeline.held_s += max(0.0, self._without_decode_s() - held_s - waked_s)

    def _leave(self, flight: Flight, waiter: Waiter, placement: PrefillPlacement) -> None:
        """Give back what is left of a place, come what may."""
        try:
            self._waiting.settle(waiter, used_tokens=flight.used_tokens)
        finally:
            self._waiting.places.give_back(placement)

    def _waits_as_others(self, flight: Flight, wake_s: float) -> None:
        """Count all of a request's wait, however short, as what the queue waits for."""
        if wake_s:
            flight.timeline.wake_s = wake_s
        elif self._waiting.held or not self._fleet.usable(Role.DECODE):
            flight.timeline.held_s = math.inf

    def _hold_for_wake(self, flight: Flight) -> float:
        """Let a request that finds the pool at zero wait for as long as a wake is known to take.

        Return that time, 0 for any other request. One whose time would be over by then is told at
        once when to come again: that it came wakes the pool all the same.
        """
        wake_s = flight.settings.wake_s
        if wake_s is None or not self._fleet.at_zero:
            return 0.0
        left_s = self._wake_left_s(wake_s)
        if self._clock() + left_s > flight.deadline_s:
            flight.ending = Ending.SHED
            # All of its wait, however short: no replica would have helped.
            flight.timeline.wake_s = wake_s
            raise still_waking(left_s)
        flight.held_for_wake_s = hold_for_wake_s(wake_s)
        return wake_s

    def _wake_left_s(self, wake_s: float) -> float:
        """Return how much longer the wake under way is known to take."""
        now = self._clock()
        return max(1.0, wake_s - (now - self._fleet.wanted_s(now)))

    def _without_decode_s(self) -> float:
        """Return for how long, in all, requests waited for what no prefill pod could give."""
        now = self._clock()
        return self._fleet.without_decode_s(now) + self._waiting.held_s(now)

    def _drain_time_s(self, flight: Flight) -> int:
        """Return a guess at how long the queue in front of a new request will take."""
        pods = self._fleet.usable(Role.PREFILL)
        wake_s = flight.settings.wake_s
        if wake_s is not None and self._fleet.at_zero:
            return min(_LONGEST_RETRY_S, math.ceil(self._wake_left_s(wake_s)))
        at_once = max(1, sum(max(1, pod.requests) for pod in pods))
        leg_s = self._learned.prefill_leg_s.value or 1.0
        return min(_LONGEST_RETRY_S, max(1, math.ceil(self._waiting.requests * leg_s / at_once)))


def _too_late(flight: Flight, retry_after_s: int) -> ApiError:
    name = "" if flight.slo_class is None else flight.slo_class.name
    bound_s = flight.slo.ttft_bound_s(flight.prompt_tokens)
    return too_busy(
        f"The request cannot keep the TTFT bound of {bound_s:.3g} s of the class {name!r} any more;"
        f" try again after {retry_after_s} s.",
        code="too_late",
        retry_after_s=retry_after_s,
    )
