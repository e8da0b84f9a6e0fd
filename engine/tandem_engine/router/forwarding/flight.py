"""One request on its way through the router, and the accounting when it ends."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tandem_contracts.router_settings import RouterSettings, SloSettings
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
from tandem_routing.time_shares import Stage, begin_by_s
from tandem_routing.verdict import Cause, Ending, Outcome, Timeline, Verdict, judge

# No engine makes more at once, whatever number a client gives.
_MOST_STREAMS = 16_384

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Flight:
    """One accepted request.

    Attributes:
        headers: what engines are sent of the client's.
        credentials: what the client was let in by, which engines are not sent.
        settings: those in force when it came; its deadlines stay as they were.
        prompt_tokens: estimated until the engine says the exact number.
        placement: where it was sent from the queue.
        leases_lost: how often its KV blocks were kept for as long as they are.
        given_up: the decode pod whose answer it then waited for in vain.
        output_tokens, longest_tokens: of all its answers, and of the longest of them.
        trace: its span, if it has one.
        stopping: the router ends it because it is shutting down itself.
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
    given_up: Pod | None = None
    trace: RequestTrace | None = field(default=None, kw_only=True)
    stopping: bool = False

    @property
    def streams(self) -> int:
        """Return how many answers it makes at once, each of them a stream to a decode pod."""
        return min(self.call.choices, _MOST_STREAMS)

    @property
    def first_token_deadline_s(self) -> float:
        """Return when waiting for a first token ends."""
        return self.timeline.received_s + self.first_token_s

    @property
    def first_token_s(self) -> float:
        """Return how long a first token may take, all in all."""
        timeouts = self.settings.timeouts
        return min(timeouts.first_token_s, timeouts.request_s)

    @property
    def deadline_s(self) -> float:
        """Return when the request ends whatever happens."""
        return self.timeline.received_s + self.settings.timeouts.request_s

    def left(self) -> None:
        """Take note that the client closed its connection, as it may after a whole answer."""
        if self.ending is not Ending.ANSWERED:
            self.ending = Ending.GONE

    def seen(self) -> RecentRequest:
        """Return what is told of it, request by request, to whoever records the pool's traffic."""
        return RecentRequest(
            arrived_s=self.received_wall_s,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self.output_tokens,
            whole=self.ending is Ending.ANSWERED,
            marks=self.call.marks,
        )

    def token_count(self) -> StreamCount:
        """Return a counter for one try's stream."""
        return count_of(self.call)


@dataclass(slots=True)
class LearnedByRouter(learned.Learned):
    """What the router has learned so far, and how many tokens prompts of each kind have."""

    sizes: dict[str, PromptSizes] = field(default_factory=lambda: defaultdict(PromptSizes))

    def expected_of(self, flight: Flight) -> Expected:
        """Return what to expect of a request, as far as it is known."""
        return self.expected(
            flight.prompt_tokens,
            output_tokens=self.expected_output_tokens(flight),
            streams=flight.streams,
        )

    def needed_of(self, flight: Flight, *, stage: Stage) -> float:
        """Return the time to leave for a request's first token, from a stage on."""
        return self.needed_s(
            self.expected_of(flight), stage=stage, first_token_s=flight.first_token_s
        )

    def begin_by_s(self, flight: Flight, *, stage: Stage, now: float) -> float:
        """Return until when a request may wait before `stage`: later it would be sent in vain."""
        needed = self.needed_of(flight, stage=stage)
        return begin_by_s(flight.first_token_deadline_s, needed=needed, now=now)

    def service_of(self, revision: str, flight: Flight) -> float | None:
        """Return S(u) of the request's prompt, as learned from prefill pods of `revision`."""
        return self.service_s(
            revision, prompt_tokens=flight.prompt_tokens, cached_tokens=flight.cached_tokens
        )

    def expected_output_tokens(self, flight: Flight) -> int:
        """Return the output tokens to plan for, of all choices."""
        pace = flight.settings.decode
        mean = self.answer_tokens(stated_tokens=None if pace is None else pace.output_tokens)
        for bound in (flight.call.max_output_tokens, flight.settings.max_model_len):
            if bound is not None and bound < mean:
                mean = bound
        return flight.streams * round(mean)


class Accounts:
    """Everything that is written down about requests."""

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

    def arrive(self, tokens: int) -> int:
        """Count a well-formed request on entry."""
        self.metrics.arrivals.inc()
        return self.ledger.arrive(tokens)

    def prompt_known(self, flight: Flight, *, tokens: int | None, cached: int | None) -> None:
        """Replace the estimate of a prompt by what the engine counted."""
        if tokens is None or flight.corrected:
            return
        self.ledger.correct(
            flight.arrival_second, estimated=flight.prompt_tokens, exact=tokens, cached=cached
        )
        if not flight.exact:
            self.learned.sizes[flight.call.kind].learn(flight.call.prompt, tokens=tokens)
        flight.prompt_tokens = tokens
        flight.cached_tokens = cached
        flight.exact = flight.corrected = True

    def finish_unread(self, tokens: int, *, arrived_wall_s: float, slo: SloSettings) -> None:
        """Count a request that was shed before its body was read."""
        now = self._clock()
        verdict = judge(
            Timeline(received_s=now),
            Ending.SHED,
            ended_s=now,
            slo=slo,
            prompt_tokens=tokens,
            output_tokens=0,
        )
        self.metrics.finish(
            verdict, Cause.ROUTER_QUEUE, prompt_tokens=tokens, cached_tokens=0, output_tokens=0
        )
        self.ledger.finish(verdict, Cause.ROUTER_QUEUE, output_tokens=0)
        self.recent.ended(RecentRequest(arrived_s=arrived_wall_s, prompt_tokens=tokens))

    def finish(self, flight: Flight) -> None:
        """Judge a request that ended and write it down everywhere."""
        settings = self._settings.current or flight.settings
        now = self._clock()
        verdict = judge(
            flight.timeline,
            flight.ending,
            ended_s=now,
            slo=settings.slo,
            prompt_tokens=flight.prompt_tokens,
            output_tokens=flight.longest_tokens,
        )
        cause = self.learned.ended(
            verdict,
            flight.ending,
            prompt_tokens=flight.prompt_tokens,
            output_tokens=flight.output_tokens / flight.streams,
        )
        self.metrics.finish(
            verdict,
            cause,
            prompt_tokens=flight.prompt_tokens,
            cached_tokens=flight.cached_tokens or 0,
            output_tokens=flight.output_tokens,
        )
        if verdict.outcome is Outcome.REFUSED:
            self.ledger.withdraw(
                flight.arrival_second, tokens=flight.prompt_tokens, cached=flight.cached_tokens
            )
        else:
            self.ledger.finish(verdict, cause, output_tokens=flight.output_tokens)
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


def _row(
    flight: Flight, verdict: Verdict, cause: Cause | None, *, duration_s: float
) -> dict[str, Any]:
    """What is told of one request: ids, times and counts, never content."""
    return {
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
