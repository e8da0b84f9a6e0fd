"""One request on its way through a pool, and the truth about it once it has ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tandem_operator.core.spec import Slo
from tandem_operator.sim.trace import TraceRequest


class Ending(StrEnum):
    """How a request ended."""

    ANSWERED = "answered"
    FAILED = "failed"
    SHED = "shed"


@dataclass(slots=True, eq=False)
class Flight:
    """What happened to one request so far. Times are seconds of the simulation.

    Attributes:
        made: output tokens made so far.
        compute_tokens: prompt tokens that a decode pod still has to compute by itself.
        service_s: prefill time of this request alone on its pod.
        held_s: the part of its wait in the router that decode pods are to blame for.
    """

    request: TraceRequest
    number: int
    deadline_s: float
    dispatched_s: float | None = None
    prefilled_s: float | None = None
    first_s: float | None = None
    end_s: float | None = None
    ending: Ending | None = None
    made: int = 0
    compute_tokens: int = 0
    cached_tokens: int = 0
    service_s: float = 0.0
    handover_s: float = 0.0
    overflowed: bool = False
    held_s: float = 0.0

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
        self.service_s = self.handover_s = 0.0
        self.overflowed = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which bounds an ended request kept, and what a violation is blamed on."""

    late_ttft: bool
    late_tpot: bool
    failed: bool
    parts: Mapping[str, float]

    @property
    def good(self) -> bool:
        """Whether it was answered inside both bounds."""
        return not (self.late_ttft or self.late_tpot or self.failed)


def judge(flight: Flight, slo: Slo) -> Verdict:
    """The verdict on a request that ended, at the bounds in force now."""
    ttft_s, tpot_s = flight.ttft_s, flight.tpot_s
    bound_s = slo.ttft_bound_s(flight.request.prompt_tokens)
    failed = flight.ending in (Ending.FAILED, Ending.SHED)
    waited_s = ttft_s
    if flight.ending is Ending.SHED and flight.end_s is not None:
        waited_s = flight.end_s - flight.request.at_s
    return Verdict(
        late_ttft=not failed and ttft_s is not None and ttft_s > bound_s,
        late_tpot=not failed and tpot_s is not None and tpot_s > slo.tpot_s,
        failed=failed,
        parts={} if waited_s is None else _parts(flight, waited_s),
    )


def _parts(flight: Flight, ttft_s: float) -> dict[str, float]:
    """The parts of the time to the first token, or of the wait that was in vain; they sum to it."""
    start_s = flight.request.at_s
    queue_s = ttft_s if flight.dispatched_s is None else flight.dispatched_s - start_s
    if flight.prefilled_s is None:
        leg_s = min(ttft_s - queue_s, flight.service_s)
        prefill_s = leg_s
    else:
        leg_s = flight.prefilled_s - start_s - queue_s
        prefill_s = min(leg_s, flight.service_s)
    rest_s = max(0.0, ttft_s - queue_s - leg_s)
    transfer_s = min(flight.handover_s, rest_s)
    held_s = min(flight.held_s, queue_s)
    return {
        "router_queue": queue_s - held_s,
        "engine_queue": leg_s - prefill_s,
        "prefill": prefill_s,
        "transfer": transfer_s,
        "decode_admission": held_s + rest_s - transfer_s,
    }
