"""One request on its way through a pool, and the truth about it once it has ended."""

from dataclasses import dataclass

from tandem_operator.core.slo import Slo
from tandem_operator.sim.traces.trace import TraceRequest
from tandem_routing import verdict
from tandem_routing.outstanding import NO_LOAD, Load
from tandem_routing.verdict import Ending, Outcome, Timeline


@dataclass(slots=True, eq=False)
class SimulatedFlight:
    """What happened to one request so far. Times are seconds of the simulation.

    Attributes:
        made: output tokens made so far.
        compute_tokens: prompt tokens that a decode pod still has to compute by itself.
        service_s: S(u) as the router knew it when the prefill ended; `None` while unknown.
        begin_by_s: until when it may wait for a prefill pod; `None`: for ever.
        held_s: the part of its wait in the router that decode pods are to blame for.
        load: what its router counts it as at its decode pod, or on the way there.
    """

    request: TraceRequest
    number: int
    deadline_s: float
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
    load: Load = NO_LOAD

    @property
    def ttft_s(self) -> float | None:
        """Time to the first token, `None` while there is none."""
        return None if self.first_s is None else self.first_s - self.request.at_s

    @property
    def tpot_s(self) -> float | None:
        """Mean gap between its tokens; `None` where there is none to speak of."""
        if self.first_s is None or self.end_s is None or self.request.output_tokens < 2:
            return None
        return (self.end_s - self.first_s) / (self.request.output_tokens - 1)

    def forget_progress(self) -> None:
        """Begin anew: the pod that held its work is gone."""
        self.dispatched_s = self.prefilled_s = None
        self.compute_tokens = self.cached_tokens = 0
        self.service_s, self.handover_s = None, 0.0
        self.overflowed = False


@dataclass(frozen=True, slots=True)
class FlightVerdict:
    """Which bounds an ended request kept; `good`: it was answered inside both."""

    good: bool
    late_ttft: bool
    late_tpot: bool
    failed: bool


def found(flight: SimulatedFlight, slo: Slo) -> verdict.Verdict:
    """What the router's rules say of a request that ended, at the bounds in force now."""
    request = flight.request
    timeline = Timeline(
        received_s=request.at_s,
        dispatched_s=flight.dispatched_s,
        prefill_started=flight.dispatched_s is not None and not flight.overflowed,
        prefill_ended_s=flight.prefilled_s,
        held_s=flight.held_s,
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
    """Which bounds a request that ended kept, as they are in force now."""
    outcome = found(flight, slo).outcome
    return FlightVerdict(
        good=outcome is Outcome.GOOD,
        late_ttft=outcome in (Outcome.LATE_TTFT, Outcome.LATE_BOTH),
        late_tpot=outcome in (Outcome.LATE_TPOT, Outcome.LATE_BOTH),
        failed=outcome in (Outcome.FAILED, Outcome.SHED),
    )
