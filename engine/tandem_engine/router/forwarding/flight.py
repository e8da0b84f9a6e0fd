"""One request inside the router, and the accounting when it ends."""

import asyncio
import logging
from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tandem_contracts.router_settings import ClassSettings, RouterSettings, SloSettings
from tandem_engine.router.accounting.ledger import Ledger
from tandem_engine.router.accounting.recent import Recent, RecentRequest
from tandem_engine.router.accounting.router_metrics import RouterMetrics
from tandem_engine.router.accounting.timing_record import TimingRecord
from tandem_engine.router.accounting.traces import RequestTrace
from tandem_engine.router.openai.answers import StreamCount, count_of
from tandem_engine.router.openai.call import Call
from tandem_engine.router.openai.prompt_sizes import PromptSizes
from tandem_engine.router.pods.pod import Pod
from tandem_engine.router.scheduling.placement import NOWHERE, DecodeOnly, PrefillPlacement
from tandem_engine.router.settings_in_force import SettingsHolder
from tandem_routing import learned
from tandem_routing.deadline_queue import Expected
from tandem_routing.prefix_index import NO_PREFIX, Prefix
from tandem_routing.tenant_shares import NO_TENANT, Tenant
from tandem_routing.time_shares import Stage, begin_by_s
from tandem_routing.verdict import Cause, Ending, Outcome, Timeline, Verdict, judge

# No engine makes more at once, whatever number a client gives.
_MOST_STREAMS = 16_384

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Flight:
    """One accepted request.

    Attributes:
        headers: the client's headers that engines get.
        credentials: the client's credentials, which engines do not get.
        arrival_second: the second in which it counts, as demand if it is `guaranteed`.
        slo_class: its class at arrival; `None`: there are no classes.
        tenant: whose share of the service it counts in.
        tenant_name: how reports call its tenant; `None`: there are no tenants.
        settings: the settings at arrival; its deadlines stay as they were.
        prompt_tokens: estimated until the engine reports the exact number.
        placement: the place that it got from the queue.
        leases_lost: number of leases of its KV blocks that ended too early.
        held_for_wake_s: extra time that it can wait, because it arrived at a pool at zero.
        given_up: the decode pod that did not answer it in time.
        output_tokens, longest_tokens: of all its answers, and of the longest of them.
        trace: its span, if it has one.
        stopping: the router ends it because the router itself shuts down.
    """

    call: Call
    request_id: str
    headers: dict[str, str]
    credentials: str | None = field(default=None, repr=False, kw_only=True)
    settings: RouterSettings
    timeline: Timeline
    received_wall_s: float
    prompt_tokens: int
    task: "asyncio.Task[object]"
    arrival_second: int
    exact: bool
    slo_class: ClassSettings | None = field(default=None, kw_only=True)
    tenant: Tenant = field(default=NO_TENANT, kw_only=True)
    tenant_name: str | None = field(default=None, kw_only=True)
    corrected: bool = False
    cached_tokens: int | None = None
    output_tokens: int = 0
    longest_tokens: int = 0
    ending: Ending = Ending.FAILED
    placement: PrefillPlacement = NOWHERE
    decode_only: DecodeOnly | None = None
    prefill_pod: str | None = None
    decode_pod: str | None = None
    tries: int = 0
    leases_lost: int = 0
    held_for_wake_s: float = 0.0
    given_up: Pod | None = None
    trace: RequestTrace | None = field(default=None, kw_only=True)
    stopping: bool = False

    @property
    def streams(self) -> int:
        """Return its number of answers at once, each of them a stream at a decode pod."""
        return _streams_of(self.call)

    @property
    def used_tokens(self) -> int:
        """Return the tokens that it used of the pool until now.

        An engine that lies may count more tokens than the model has room for.
        """
        dispatched = self.timeline.dispatched_s is not None
        used = dispatched and self.ending not in (Ending.SHED, Ending.REFUSED)
        tokens = used * self.prompt_tokens + self.output_tokens
        longest = self.settings.max_model_len
        return tokens if longest is None else min(tokens, longest * self.streams)

    @property
    def first_token_deadline_s(self) -> float:
        """Return the time at which the wait for a first token ends."""
        most_s = self.first_token_s + self.held_for_wake_s
        return min(self.timeline.received_s + most_s, self.deadline_s)

    @property
    def first_token_s(self) -> float:
        """Return the whole time that a first token can take."""
        timeouts = self.settings.timeouts
        return min(timeouts.first_token_s, timeouts.request_s) + self.patience_s

    @property
    def deadline_s(self) -> float:
        """Return the time at which the request ends in any case."""
        return self.timeline.received_s + self.settings.timeouts.request_s + self.patience_s

    @property
    def patience_s(self) -> float:
        """Return the extra time that its class can wait for a first token."""
        if self.slo_class is None:
            return 0.0
        timeouts = self.settings.timeouts
        bound_s = self.slo_class.slo.ttft_bound_s(self.prompt_tokens)
        return max(0.0, bound_s - min(timeouts.first_token_s, timeouts.request_s))

    @property
    def slo(self) -> SloSettings:
        """Return its bounds at arrival."""
        return self.settings.slo if self.slo_class is None else self.slo_class.slo

    @property
    def guaranteed(self) -> bool:
        """Return whether replicas are held for its class."""
        return self.slo_class is None or self.slo_class.guaranteed

    def left(self) -> None:
        """Record that the client closed its connection, which can also follow a whole answer."""
        if self.ending is not Ending.ANSWERED:
            self.ending = Ending.GONE

    def seen(self) -> RecentRequest:
        """Return its row for recorders of the pool's traffic."""
        return RecentRequest(
            arrived_s=self.received_wall_s,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self.output_tokens,
            whole=self.ending is Ending.ANSWERED,
            marks=self.call.marks,
            tenant=self.tenant_name or "",
        )

    def prefix(self) -> Prefix:
        """Return the prefix that other requests may share, if placement uses prefixes."""
        if not self.settings.prefix_placement or not self.call.marks:
            return NO_PREFIX
        return Prefix(array("Q", self.call.marks), self.prompt_tokens * self.call.mark_share)

    def token_count(self) -> StreamCount:
        """Return a counter for the stream of one try."""
        return count_of(self.call)


@dataclass(slots=True)
class LearnedByRouter(learned.Learned):
    """The learned values of the router, and the learned tokens of each kind of prompt."""

    sizes: dict[str, PromptSizes] = field(default_factory=lambda: defaultdict(PromptSizes))

    def expected_of(self, flight: Flight, held: Mapping[Pod, int] | None = None) -> Expected:
        """Return the expectation for a request, as far as known.

        `held` has the tokens of its prompt that prefill pods should have cached.
        """
        return self.expected(
            flight.prompt_tokens,
            output_tokens=self.expected_output_tokens(flight),
            streams=flight.streams,
            held={pod.name: tokens for pod, tokens in held.items()} if held else None,
        )

    def needed_of(self, flight: Flight, *, stage: Stage, expected: Expected | None = None) -> float:
        """Return the time to reserve for a request's first token, from a stage on."""
        expected = expected or self.expected_of(flight)
        return self.needed_s(expected, stage=stage, first_token_s=flight.first_token_s)

    def begin_by_s(
        self, flight: Flight, *, stage: Stage, now: float, expected: Expected | None = None
    ) -> float:
        """Return the latest time to begin `stage` with a chance of success.

        `expected` is what is expected of the request, if that was asked a moment ago.
        """
        needed = self.needed_of(flight, stage=stage, expected=expected)
        return begin_by_s(flight.first_token_deadline_s, needed=needed, now=now)

    def service_of(self, revision: str, flight: Flight) -> float | None:
        """Return S(u) of the request's prompt, as learned from prefill pods of `revision`."""
        return self.service_s(
            revision, prompt_tokens=flight.prompt_tokens, cached_tokens=flight.cached_tokens
        )

    def expected_output_tokens(self, flight: Flight) -> int:
        """Return the expected output tokens of all choices."""
        return self.expected_answers(flight.call, flight.settings)

    def expected_answers(self, call: Call, settings: RouterSettings) -> int:
        """Return the expected tokens of all answers to a call."""
        pace = settings.decode
        mean = self.answer_tokens(stated_tokens=None if pace is None else pace.output_tokens)
        for bound in (call.max_output_tokens, settings.max_model_len):
            if bound is not None and bound < mean:
                mean = bound
        return _streams_of(call) * round(mean)


def _streams_of(call: Call) -> int:
    return min(call.choices, _MOST_STREAMS)


class Accounts:
    """All records about requests."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        recent: Recent,
        metrics: RouterMetrics,
        learned: LearnedByRouter,
        settings: SettingsHolder,
        clock: Callable[[], float],
        record: TimingRecord | None,
    ) -> None:
        self.ledger = ledger
        self.recent = recent
        self.metrics = metrics
        self.learned = learned
        self._settings = settings
        self._clock = clock
        self._record = record
        self._arrival: asyncio.Future[None] | None = None

    def arrive(self, tokens: int, slo_class: ClassSettings | None) -> int:
        """Count a well-formed request on entry, and return its second; best effort is no demand."""
        self.metrics.arrivals.inc()
        self.ring()
        if slo_class is not None and not slo_class.guaranteed:
            return self.ledger.arrive_best_effort()
        return self.ledger.arrive(tokens)

    def ring(self) -> None:
        """Wake all waiters of `arrival`: a request has come, or the router ends."""
        if self._arrival is not None:
            self._arrival.set_result(None)
            self._arrival = None

    async def arrival(self) -> None:
        """Wait for the next request."""
        if self._arrival is None:
            self._arrival = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._arrival)

    def prompt_known(self, flight: Flight, *, tokens: int | None, cached: int | None) -> None:
        """Replace the estimate of a prompt by the count of the engine."""
        if tokens is None or flight.corrected:
            return
        if cached is not None:
            # More would leave less than nothing of the prompt to compute.
            cached = min(cached, tokens)
        if flight.guaranteed:
            self.ledger.correct(
                flight.arrival_second, estimated=flight.prompt_tokens, exact=tokens, cached=cached
            )
        if not flight.exact:
            self.learned.sizes[flight.call.kind].learn(flight.call.prompt, tokens=tokens)
        flight.prompt_tokens = tokens
        flight.cached_tokens = cached
        flight.exact = flight.corrected = True

    def prefilled(self, flight: Flight, *, held_share: float) -> None:
        """Learn the cached tokens at a prefill pod, and the share that it should have had."""
        held_tokens = round(held_share * flight.prompt_tokens)
        self.metrics.foreseen_tokens.inc(held_tokens)
        self.learned.prefilled(
            flight.prompt_tokens, cached_tokens=flight.cached_tokens, held_tokens=held_tokens
        )

    def finish_unread(
        self,
        tokens: int,
        *,
        arrived_wall_s: float,
        settings: RouterSettings,
        slo_class: ClassSettings | None,
        tenant_name: str | None,
    ) -> None:
        """Count a request that was shed before its body was read."""
        now = self._clock()
        verdict = judge(
            Timeline(received_s=now),
            Ending.SHED,
            ended_s=now,
            slo=settings.slo if slo_class is None else slo_class.slo,
            prompt_tokens=tokens,
            output_tokens=0,
        )
        guaranteed = slo_class is None or slo_class.guaranteed
        self.metrics.finish(
            verdict,
            Cause.ROUTER_QUEUE,
            prompt_tokens=tokens,
            cached_tokens=0,
            output_tokens=0,
            guaranteed=guaranteed,
        )
        self._count_by_kind(slo_class, tenant_name, verdict, output_tokens=0)
        if guaranteed:
            self.ledger.finish(verdict, Cause.ROUTER_QUEUE, output_tokens=0)
        self.recent.ended(
            RecentRequest(arrived_s=arrived_wall_s, prompt_tokens=tokens, tenant=tenant_name or "")
        )

    def finish(self, flight: Flight) -> None:
        """Judge a request that ended, and add it to all records."""
        settings = self._settings.current or flight.settings
        now = self._clock()
        verdict = judge(
            flight.timeline,
            flight.ending,
            ended_s=now,
            slo=_slo_of(flight, settings),
            prompt_tokens=flight.prompt_tokens,
            output_tokens=flight.longest_tokens,
        )
        cause = self.learned.ended(
            verdict,
            flight.ending,
            prompt_tokens=flight.prompt_tokens,
            output_tokens=flight.output_tokens / flight.streams,
            guaranteed=flight.guaranteed,
        )
        self.metrics.finish(
            verdict,
            cause,
            prompt_tokens=flight.prompt_tokens,
            cached_tokens=flight.cached_tokens or 0,
            output_tokens=flight.output_tokens,
            guaranteed=flight.guaranteed,
        )
        self._count_by_kind(
            flight.slo_class, flight.tenant_name, verdict, output_tokens=flight.output_tokens
        )
        if verdict.outcome is Outcome.REFUSED:
            second = flight.arrival_second
            if flight.guaranteed:
                self.ledger.withdraw(
                    second, tokens=flight.prompt_tokens, cached=flight.cached_tokens
                )
            else:
                self.ledger.withdraw_best_effort(second)
        else:
            if flight.guaranteed:
                self.ledger.finish(verdict, cause, output_tokens=flight.output_tokens)
            if Cause.WAKE in verdict.parts and verdict.ttft_s is not None:
                received_s = flight.received_wall_s
                self.ledger.woken(received_s=received_s, token_s=received_s + verdict.ttft_s)
            self.recent.ended(flight.seen())
        # What missed its bounds is what has a cause.
        is_logged = settings.request_log == "all" or (
            settings.request_log == "missed" and cause is not None
        )
        if not (is_logged or self._record or flight.trace):
            return
        row = _row(flight, verdict, cause, duration_s=now - flight.timeline.received_s)
        if self._record is not None:
            self._record.write(row)
        if is_logged:
            logger.info("request", extra=row)
        if flight.trace is not None:
            flight.trace.end(verdict, flight.timeline, row)

    def _count_by_kind(
        self,
        slo_class: ClassSettings | None,
        tenant_name: str | None,
        verdict: Verdict,
        *,
        output_tokens: int,
    ) -> None:
        """Count a request that ended in the results of its class and of its tenant."""
        if tenant_name is not None:
            self.ledger.finish_tenant(tenant_name, verdict, output_tokens=output_tokens)
        if slo_class is not None:
            self.metrics.finish_class(slo_class.name, verdict, output_tokens=output_tokens)
            self.ledger.finish_class(slo_class.name, verdict, output_tokens=output_tokens)


def _slo_of(flight: Flight, settings: RouterSettings) -> SloSettings:
    """Return the bounds in force now; for a class that no longer exists, its old bounds."""
    if flight.slo_class is None:
        return settings.slo
    name = flight.slo_class.name
    return next((each.slo for each in settings.classes if each.name == name), flight.slo)


def _row(
    flight: Flight, verdict: Verdict, cause: Cause | None, *, duration_s: float
) -> dict[str, Any]:
    """Return the log fields of one request: ids, times and counts, never content."""
    named = {} if flight.slo_class is None else {"class": flight.slo_class.name}
    return named | {
        "request_id": flight.request_id,
        "received_s": flight.received_wall_s,
        "kind": flight.call.kind.value,
        "stream": flight.call.stream,
        "prompt_tokens": flight.prompt_tokens,
        "prompt_tokens_exact": flight.exact,
        "cached_tokens": flight.cached_tokens,
        "output_tokens": flight.output_tokens,
        "ttft_s": verdict.ttft_s,
        "tpot_s": verdict.tpot_s,
        "duration_s": duration_s,
        "ttft_bound_s": verdict.ttft_bound_s,
        "tpot_bound_s": verdict.tpot_bound_s,
        "outcome": verdict.outcome.value,
        "blame": cause.value if cause else None,
        "parts_s": {part.value: value for part, value in verdict.parts.items()},
        "decode_only": flight.decode_only.value if flight.decode_only else None,
        "prefill_pod": flight.prefill_pod,
        "decode_pod": flight.decode_pod,
        "decode_tries": flight.tries,
    }
