"""The four stretches of load that the demo shows, as data."""

from dataclasses import dataclass

from benchmarks.load.plan import Lengths, Traffic
from tandem_operator.core.role import Role


@dataclass(frozen=True, slots=True)
class Phase:
    """One stretch of load and the role that it should make grow.

    Attributes:
        grows: the role whose SLO this load puts at risk; `None`: neither.
        loaded: whether it must last long enough for a new pod to start and to be of use.
        tpot_target: TPOT that `kubectl apply` sets when the phase begins.
    """

    name: str
    rate_rps: float
    prompt_tokens: Lengths
    output_tokens: Lengths
    least_s: float
    grows: Role | None = None
    loaded: bool = True
    tpot_target: str | None = None

    def duration_s(self, *, cold_start_s: float) -> float:
        """How long the phase lasts, given how long a pod took from creation to Ready."""
        return max(self.least_s, 2.0 * cold_start_s) if self.loaded else self.least_s

    def traffic(self, *, cold_start_s: float) -> Traffic:
        """What the load generator is to send."""
        return Traffic(
            name=self.name,
            rate_rps=self.rate_rps,
            duration_s=self.duration_s(cold_start_s=cold_start_s),
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
        )

    @property
    def objective(self) -> str | None:
        """The latency that a growth in this phase has to name as its cause."""
        return (
            None if self.grows is None else {Role.PREFILL: "TTFT", Role.DECODE: "TPOT"}[self.grows]
        )


DECODE_HEAVY_RPS = 1.2
DECODE_HEAVY_PROMPT = Lengths(32, 96)
DECODE_HEAVY_OUTPUT = Lengths(250, 450)

PHASES = (
    Phase(
        name="light",
        rate_rps=0.7,
        prompt_tokens=Lengths(100, 300),
        output_tokens=Lengths(24, 48),
        least_s=40.0,
        loaded=False,
    ),
    Phase(
        name="prefill-heavy",
        rate_rps=4.0,
        prompt_tokens=Lengths(1100, 1600),
        output_tokens=Lengths(4, 8),
        least_s=100.0,
        grows=Role.PREFILL,
    ),
    Phase(
        name="decode-heavy",
        rate_rps=DECODE_HEAVY_RPS,
        prompt_tokens=DECODE_HEAVY_PROMPT,
        output_tokens=DECODE_HEAVY_OUTPUT,
        least_s=100.0,
        grows=Role.DECODE,
    ),
    Phase(
        name="slo-tightened",
        rate_rps=DECODE_HEAVY_RPS,
        prompt_tokens=DECODE_HEAVY_PROMPT,
        output_tokens=DECODE_HEAVY_OUTPUT,
        least_s=100.0,
        grows=Role.DECODE,
        tpot_target="12ms",
    ),
)
