"""Runs the prefill leg of a request: at most two pods, then a decode pod serves it whole."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tandem_engine.router.forwarding.failures import Failures, gateway_error
from tandem_engine.router.forwarding.flight import Accounts, Flight
from tandem_engine.router.forwarding.kv_return import KvReturn
from tandem_engine.router.forwarding.upstream import (
    FailureReason,
    Upstream,
    UpstreamFailure,
)
from tandem_engine.router.forwarding.watchdog import Watchdog
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.openai.prefill_answer import PrefillAnswer
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.health import Attempt
from tandem_engine.router.pods.kv_lease import Handover, usable_until_s
from tandem_engine.router.pods.pod import Pod, Role
from tandem_engine.router.scheduling.placement import DecodeOnly, PrefillPlacement
from tandem_engine.router.scheduling.places import Places
from tandem_routing.pod_choice import least_loaded
from tandem_routing.time_shares import Stage
from tandem_routing.verdict import Ending

# The engine may have finished the prompt all the same.
_UNREAD = frozenset({FailureReason.DISCONNECTED, FailureReason.MALFORMED})


class Left(Protocol):
    """Called when a pod no longer holds a request, with whether it has `computed` the prompt."""

    def __call__(self, *, computed: bool = ...) -> None:
        """Record it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillLeg:
    """Runs prefill legs."""

    fleet: EnginePods
    places: Places
    upstream: Upstream
    accounts: Accounts
    failures: Failures
    kv_return: KvReturn
    clock: Callable[[], float]

    async def run(self, flight: Flight, placement: PrefillPlacement) -> Handover | None:
        """Return the KV blocks for a decode pod; `None`: a decode pod serves the request whole.

        A leg that fails is tried once more, at another pod. A leg without an answer is not.
        """
        pod = placement.prefill
        if pod is None:
            return None
        flight.timeline.prefill_started = True
        started = self.clock()
        ejection = self.fleet.ejection
        left: Left = partial(self.places.left_prefill, placement)
        for last in (False, True):
            flight.prefill_pod, tried_s = pod.name, self.clock()
            attempt = ejection.begin(pod, tokens=flight.prompt_tokens)
            try:
                answer = await self._once(flight, attempt, left, placed=None if last else placement)
            except TimeoutError:
                # What is left of the deadline goes to the decode pod, not to a second wait.
                if not attempt.given_up:
                    self.failures.silent(flight, attempt, silent_s=self.clock() - tried_s)
                flight.decode_only = DecodeOnly.PREFILL_TIMEOUT
            except UpstreamFailure as failure:
                flight.decode_only = DecodeOnly.PREFILL_FAILED
                self.failures.failed(attempt, failure)
                if await self.failures.ends_here(flight, pod, failure):
                    flight.ending = Ending.FAILED
                    raise gateway_error(failure) from failure
                other = None if last else self._other(pod)
                if other is not None:
                    self.accounts.metrics.retries.labels(failure.reason.value).inc()
                    pod = other
                    self.places.sent_again(placement, pod)
                    left = partial(self.places.left_again, placement, pod)
                    continue
            else:
                self._learn(flight, answer, started)
                if answer.kv_params:
                    flight.decode_only = None
                    handover = Handover(
                        kv_params=answer.kv_params,
                        prefill=pod,
                        until_s=usable_until_s(
                            answer.kv_params,
                            clock=pod.clock,
                            sent_s=tried_s,
                            now=self.clock(),
                            lease_s=flight.settings.kv.lease_s,
                        ),
                    )
                    pod.names_leases = handover.name is not None
                    return handover
                flight.decode_only = DecodeOnly.NO_KV_PARAMS
            finally:
                ejection.close(attempt)
            break
        flight.timeline.prefill_ended_s = self.clock()
        return None

    async def _once(
        self,
        flight: Flight,
        attempt: Attempt,
        left: Left,
        *,
        placed: PrefillPlacement | None,
    ) -> PrefillAnswer:
        """Ask the pod of the attempt; `left` is called once it no longer holds the request.

        `placed` is the place that it just got there; `None`: this is a second try.
        """
        pod = attempt.pod
        started, entries = self.clock(), pod.entries
        alone = pod.requests == 1 and placed is not None
        timeouts, lease = flight.settings.timeouts, os.urandom(16).hex()
        # A decode pod may have to do it all.
        by_s = self.accounts.learned.begin_by_s(
            flight,
            stage=Stage.WHOLE,
            now=started,
            expected=None if placed is None else placed.expected,
        )
        unanswered, computed = True, False
        self.accounts.ledger.leg_began(pod)
        try:
            until_s = min(started + timeouts.prefill_s, by_s)
            with Watchdog(self.upstream.alarms, until_s, flight.task) as watchdog:
                attempt.give_up = watchdog.end
                answer = await self.upstream.prefill(
                    pod,
                    kind=flight.call.kind,
                    body=flight.call.prefill_body(lease),
                    headers=flight.headers,
                    connect_s=timeouts.connect_s,
                )
            unanswered, computed = False, True
        except ApiError:
            unanswered = False
            flight.ending = Ending.REFUSED
            raise
        except UpstreamFailure as failure:
            unanswered = failure.reason in _UNREAD
            raise
        finally:
            if unanswered:
                self.kv_return.unanswered(pod, lease, connect_s=timeouts.connect_s)
            self.accounts.ledger.leg_ended(pod)
            left(computed=computed)
        ended = self.clock()
        self.fleet.ejection.first_token(attempt)
        if answer.kv_params or not answer.complete:
            self.fleet.ejection.well(attempt)
        else:
            self.fleet.ejection.failed(attempt)
        self.accounts.prompt_known(flight, tokens=answer.prompt_tokens, cached=answer.cached_tokens)
        held_share = 0.0 if placed is None else placed.held_share
        self.accounts.prefilled(flight, held_share=held_share)
        cached = flight.cached_tokens or 0
        self.accounts.ledger.leg_served(
            pod,
            prompt_tokens=flight.prompt_tokens,
            cached_tokens=cached,
            computed_tokens=flight.prompt_tokens - cached,
            output_tokens=0,
        )
        flight.timeline.service_s = self.accounts.learned.service_of(pod.endpoint.revision, flight)
        if alone and pod.entries == entries:
            self.accounts.learned.prefilled_alone(
                pod.endpoint.revision,
                prompt_tokens=flight.prompt_tokens,
                cached_tokens=flight.cached_tokens,
                leg_s=ended - started,
            )
        return answer

    def _learn(self, flight: Flight, answer: PrefillAnswer, started: float) -> None:
        now = self.clock()
        flight.timeline.prefill_ended_s = now
        self.accounts.learned.prefill_leg_s.add(now - started)
        if answer.kv_params:
            flight.timeline.transfer_s = self.accounts.learned.transfer_s

    def _other(self, pod: Pod) -> Pod | None:
        paired = self.fleet.usable(Role.PREFILL, revisions=self.fleet.revisions(Role.DECODE))
        others = [other for other in paired if other is not pod]
        # Its decode pods were found to bear the request; another revision's were not asked.
        same = [other for other in others if other.endpoint.revision == pod.endpoint.revision]
        return least_loaded(same or others)
