"""The results of a simulation: attainment, goodput per GPU, latencies, counts over time."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tandem_operator.core.role import Role
from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.ledger import quantile
from tandem_routing.verdict import Ending

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Moment:
    """One tick of one pool: GPUs held by its pods, and requests queued, ended and good so far."""

    at_s: float
    asked: Mapping[Role, int]
    ready: Mapping[Role, int]
    gpus: int
    queued: int
    finished: int
    good: int


@dataclass(frozen=True, slots=True)
class ClassOutcome:
    """The results of the requests of one class.

    Attributes:
        good_output_tokens: output tokens of good requests.
        refused: requests refused while they waited, because they could not be on time any more.
    """

    requests: int
    good: int
    output_tokens: int
    good_output_tokens: int
    guaranteed: bool
    refused: int = 0

    @property
    def attainment(self) -> float:
        """Return good requests over all of the class."""
        return self.good / self.requests if self.requests else 1.0


@dataclass(frozen=True, slots=True)
class TenantOutcome:
    """The results of the requests of one tenant, by the rules of `status.tenants`.

    Attributes:
        limited: requests beyond a limit of the tenant. They never enter the pool.
        refused: these, and requests that were refused or shed while they waited.
        ttft_p99_s: of the requests that got a token.
    """

    requests: int
    good: int
    limited: int
    refused: int
    output_tokens: int
    ttft_p99_s: float | None

    @property
    def attainment(self) -> float | None:
        """Return good requests over those within its limits; `None` if there are none."""
        within = self.requests - self.limited
        return self.good / within if within else None


@dataclass(frozen=True, slots=True)
class PoolReport:
    """One pool's run.

    Attributes:
        unfinished: requests that were still inside when the simulation was cut off.
        overflowed: requests that a decode pod served whole.
        changes: by role, how often the count that was asked for changed.
        end_s: when the last request of the simulation ended.
        classes: by name, where the pool has classes.
        limited: requests that limits of tenants refused. They are no demand, and in no other count
            but those of `tenants`.
        tenants: by name, where requests name any.
    """

    pool: str
    policy: str
    trace: str
    seed: int
    requests: int
    completed: int
    failed: int
    unfinished: int
    good: int
    late_ttft: int
    late_tpot: int
    gpu_seconds: Mapping[Role, float]
    replica_seconds: Mapping[Role, float]
    ttft_s: Mapping[str, float | None]
    tpot_s: Mapping[str, float | None]
    blame: Mapping[str, int]
    changes: Mapping[Role, int]
    preemptions: int
    overflowed: int
    output_tokens: int
    end_s: float
    moments: tuple[Moment, ...]
    classes: Mapping[str, ClassOutcome] = field(default_factory=dict)
    limited: int = 0
    tenants: Mapping[str, TenantOutcome] = field(default_factory=dict)

    @property
    def attainment(self) -> float:
        """Return good requests over all guaranteed ones, unfinished ones included."""
        held_for = [each for each in self.classes.values() if each.guaranteed]
        if held_for:
            requests = sum(each.requests for each in held_for)
            return sum(each.good for each in held_for) / requests if requests else 1.0
        return self.good / self.requests if self.requests else 1.0

    @property
    def good_per_gpu_s(self) -> float:
        """Return good requests per GPU-second held."""
        held = sum(self.gpu_seconds.values())
        return self.good / held if held > 0.0 else 0.0

    @property
    def gpu_hours(self) -> float:
        """Return the GPU-hours of all pods, starting and draining ones included."""
        return sum(self.gpu_seconds.values()) / 3600.0

    def to_json(self) -> dict[str, Any]:
        """Return the numbers, by the names that every benchmark of this project uses."""
        return {
            "policy": self.policy,
            "trace": self.trace,
            "seed": self.seed,
            "requests": self.requests,
            "completed": self.completed,
            "failed": self.failed,
            "unfinished": self.unfinished,
            "good": self.good,
            "attainment": self.attainment,
            "gpu_hours": self.gpu_hours,
            "good_per_gpu_s": self.good_per_gpu_s,
            **{f"ttft_{name}_s": value for name, value in self.ttft_s.items()},
            **{f"tpot_{name}_s": value for name, value in self.tpot_s.items()},
            "late_ttft": self.late_ttft,
            "late_tpot": self.late_tpot,
            "overflowed": self.overflowed,
            "blame": dict(self.blame),
            "mean_replicas": {
                role.value: seconds / max(1e-9, self.end_s)
                for role, seconds in self.replica_seconds.items()
            },
            "changes": {role.value: count for role, count in self.changes.items()},
            "end_s": self.end_s,
            **(
                {"classes": {n: asdict(c) for n, c in self.classes.items()}} if self.classes else {}
            ),
            **self.tenants_json(),
        }

    def tenants_json(self) -> dict[str, Any]:
        """Return the results by tenant, if requests name any."""
        if not self.tenants:
            return {}
        return {
            "limited": self.limited,
            "tenants": {
                name: {**asdict(each), "attainment": each.attainment}
                for name, each in self.tenants.items()
            },
        }


def latency_quantiles(flights: Sequence[SimulatedFlight]) -> tuple[dict[str, float | None], ...]:
    """Return TTFT and TPOT quantiles of requests that were answered."""
    answered = [f for f in flights if f.ending is Ending.ANSWERED]
    ttft = sorted(f.ttft_s for f in answered if f.ttft_s is not None)
    tpot = sorted(f.tpot_s for f in answered if f.tpot_s is not None)
    return tuple(
        {name: quantile(values, share) for name, share in SHARES.items()} for values in (ttft, tpot)
    )
