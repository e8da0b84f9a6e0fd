"""One request on its way through a pool, and its verdict after its end."""

from dataclasses import dataclass

from tandem_operator.core.slo import Slo, SloClass
from tandem_operator.sim.traces.trace import TraceRequest
from tandem_routing import verdict
from tandem_routing.outstanding import NO_LOAD, Load
from tandem_routing.verdict import Ending, Outcome, Timeline


@dataclass(slots=True, eq=False)
class SimulatedFlight:
    """The history of one request so far. Times are seconds of the simulation.

    Attributes:
        made: output tokens made so far.
        compute_tokens: prompt tokens that a decode pod still has to compute by itself.
        service_s: S(u) in the router's model when the prefill ended; `None` while unknown.
        begin_by_s: latest start of its prefill; `None`: no limit.
        held_s: the part of its wait in the router that decode pods caused.
        given_s: extension of its deadline while its pool wakes.
        wake_s: the part of its wait in which the pool was at zero; not part of `held_s`.
        slo_class: its class; `None`: the pool has none.
        load: what its router counts it as at its decode pod, or on the way there.
        reserved: what best effort left free for it.
        counted_tokens: what it counts as in the share of its tenant until it has ended.
        asked_tokens: what it counts as in the limit of its tenant until it has ended.
    """

    request: TraceRequest
    number: int
    deadline_s: float
    slo_class: SloClass | None = None
    begin_by_s: float | None = None
    dispatched_s: float | None = None
    prefilled_s: float | None = None
    first_s: float | None = None
    end_s: float | None = None
    ending: Ending | None = None
    made: int = 0
    compute_tokens: int = 0
    cached_tokens: int = 0
    service_s: float | None = None
    handover_s: float = 0.0
    overflowed: bool = False
    held_s: float = 0.0
    given_s: float = 0.0
    wake_s: float = 0.0
    load: Load = NO_LOAD
    reserved: Load = NO_LOAD
    counted_tokens: int = 0
    asked_tokens: int = 0

    @property
    def guaranteed(self) -> bool:
        """Return whether replicas are held for it."""
        return self.slo_class is None or self.slo_class.guaranteed

    @property
    def ttft_s(self) -> float | None:
        """Return the time to the first token; `None` while there is none."""
        return None if self.first_s is None else self.first_s - self.request.at_s

    @property
    def tpot_s(self) -> float | None:
        """Return the mean gap between its tokens; `None` if it has too few tokens."""
        if self.first_s is None or self.end_s is None or self.request.output_tokens < 2:
            return None
        return (self.end_s - self.first_s) / (self.request.output_tokens - 1)

    def forget_progress(self) -> None:
        """Restart its work: the pod that held it is gone."""
        self.dispatched_s = self.prefilled_s = None
        self.compute_tokens = self.cached_tokens = 0
        self.service_s, self.handover_s = None, 0.0
        self.overflowed = False


@dataclass(frozen=True, slots=True)
class FlightVerdict:
    """The bounds that an ended request kept; `good`: it was answered inside both."""

    good: bool
    late_ttft: bool
    late_tpot: bool
    failed: bool


def found(flight: SimulatedFlight, slo: Slo) -> verdict.Verdict:
    """Return the verdict of the router's rules on a request that ended, at the present bounds."""
    request = flight.request
    timeline = Timeline(
        received_s=request.at_s,
        dispatched_s=flight.dispatched_s,
        prefill_started=flight.dispatched_s is not None and not flight.overflowed,
        prefill_ended_s=flight.prefilled_s,
        held_s=flight.held_s,
        wake_s=flight.wake_s,
        first_token_s=flight.first_s,
        last_token_s=flight.end_s,
        service_s=flight.service_s,
        transfer_s=flight.handover_s,
    )
    return verdict.judge(
        timeline,
        flight.ending or Ending.FAILED,
        ended_s=request.at_s if flight.end_s is None else flight.end_s,
        slo=slo,
        prompt_tokens=request.prompt_tokens,
        output_tokens=request.output_tokens,
    )


def judge(flight: SimulatedFlight, slo: Slo) -> FlightVerdict:
    """Return which of the present bounds a request that ended kept."""
    outcome = found(flight, slo).outcome
    return FlightVerdict(
        good=outcome is Outcome.GOOD,
        late_ttft=outcome in (Outcome.LATE_TTFT, Outcome.LATE_BOTH),
        late_tpot=outcome in (Outcome.LATE_TPOT, Outcome.LATE_BOTH),
        failed=outcome in (Outcome.FAILED, Outcome.SHED, Outcome.TOO_LATE),
    )
