"""The four stretches of load that the demo shows, as data."""

from dataclasses import dataclass, replace

from benchmarks.load.plan import Lengths, Traffic
from e2e.demo.calibrate import Speed
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo

TIGHTENED_SHARE = 1.15
"""The tightened TPOT as a share of the median that the fleet gives when the phase begins: near
enough to it that far more requests miss than may, far enough that a few more pods can keep it.
Where all are near the median, it is between that and the 95th percentile."""
FIRST_S, STEP_S, MOST_STEPS = 30.0, 10.0, 7
CLIMB = 1.1
"""A load rises in steps until its role grows: what a pod carries is measured within a third at
best, since other pods share its cores by then."""
STEADY_S, MOST_STARTS = 20.0, 2.0
"""A phase goes on, though not for ever, until all pods that its role asks for have been Ready for a
while: only then do latencies tell what the fleet gives, and a tighter bound what it does not."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One stretch of load and the role that it should make grow.

    Attributes:
        pods: the number of pods of the role in `loads` that this load keeps busy inside the SLO.
        grows: the role whose SLO this load puts at risk; `None`: neither.
        lasting: whether it must last long enough for a new pod to start and to be of use.
        tightens: whether `kubectl apply` tightens TPOT when the phase begins.
    """

    name: str
    pods: float
    loads: Role
    prompt_tokens: Lengths
    output_tokens: Lengths
    least_s: float
    grows: Role | None = None
    lasting: bool = True
    tightens: bool = False

    def duration_s(self, *, cold_start_s: float) -> float:
        """Return how long the phase lasts, given how long a pod took from creation to Ready."""
        return max(self.least_s, 2.1 * cold_start_s) if self.lasting else self.least_s

    def rate_rps(self, speed: Speed, *, slo: Slo) -> float:
        """Return the requests per second that are `pods` pods' worth of work on this machine."""
        if self.loads is Role.PREFILL:
            per_pod = speed.prefill_tokens_per_s / self.prompt_tokens.mean
        else:
            per_pod = speed.decode_tokens_per_s(tpot_s=slo.tpot_s) / self.output_tokens.mean
        return round(self.pods * per_pod, 2)

    def traffic(self, speed: Speed, *, slo: Slo, cold_start_s: float) -> Traffic:
        """Return the traffic of the load generator; `slo` is that of the pool as it was applied."""
        return Traffic(
            name=self.name,
            rate_rps=self.rate_rps(speed, slo=slo),
            duration_s=self.duration_s(cold_start_s=cold_start_s),
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
        )

    @property
    def objective(self) -> str | None:
        """Return the latency that a growth in this phase has to name as its cause."""
        return (
            None if self.grows is None else {Role.PREFILL: "TTFT", Role.DECODE: "TPOT"}[self.grows]
        )


_DECODE_HEAVY = Phase(
    name="decode-heavy",
    pods=0.5,  # a KV pull for each request takes about half of what the calibration sees
    loads=Role.DECODE,
    prompt_tokens=Lengths(32, 96),
    output_tokens=Lengths(240, 360),
    least_s=100.0,
    grows=Role.DECODE,
)

PHASES = (
    Phase(
        name="light",
        pods=0.03,
        loads=Role.DECODE,
        prompt_tokens=Lengths(100, 300),
        output_tokens=Lengths(8, 24),
        least_s=40.0,
        lasting=False,
    ),
    Phase(
        name="prefill-heavy",
        pods=0.85,
        loads=Role.PREFILL,
        prompt_tokens=Lengths(1600, 1900),
        # Enough of them that the pause of a KV pull is a small part of anybody's TPOT.
        output_tokens=Lengths(12, 20),
        least_s=100.0,
        grows=Role.PREFILL,
    ),
    _DECODE_HEAVY,
    replace(_DECODE_HEAVY, name="slo-tightened", tightens=True),
)
