"""The state of a pool at one moment, as plain data. Unknown is `None` or absent, never zero."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tandem_operator.core.role import Role
from tandem_operator.core.tuning.tuning import TUNING, Tuning


class PodPhase(StrEnum):
    """The phase of a pod between its creation and its end."""

    UNSCHEDULED = "Unscheduled"
    STARTING = "Starting"
    READY = "Ready"
    TERMINATING = "Terminating"


@dataclass(frozen=True, slots=True)
class PodState:
    """One engine pod as the API server shows it. Times are epoch seconds."""

    name: str
    role: Role
    revision: str
    phase: PodPhase
    created_s: float
    ready_s: float | None = None
    problem: str | None = None
    """Why the pod does not start, in Kubernetes' own words (ImagePullBackOff, Unschedulable...)."""
    unready_s: float | None = None
    """Time since which it is not Ready; `None` if it is Ready, or not known."""
    leaving: bool = False
    """Whether its node is being drained."""
    gates: tuple[str, ...] = ()
    """Its scheduling gates, such as kueue.x-k8s.io/admission."""
    scheduled_s: float | None = None
    """Time when it got its node; `None` if it has none, or not known."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The arithmetic and memory traffic of one copy of a model.

    Attributes:
        weight_bytes: bytes of the weights that a step with a full decode batch reads.
        kv_bytes_per_token: bytes of one token in the KV cache.
        flops_per_token: arithmetic of one token with the weights.
        attention_flops: arithmetic of one token with one token of its context.
        compute_bits: width of the numbers that are multiplied.
    """

    weight_bytes: float
    kv_bytes_per_token: float
    flops_per_token: float
    attention_flops: float
    compute_bits: int


@dataclass(frozen=True, slots=True)
class Hardware:
    """The hardware of one replica: the driver's name of the device, and the number of devices."""

    device: str
    devices: int = 1


@dataclass(frozen=True, slots=True)
class StartUp:
    """An engine's own measurements before it was Ready.

    Attributes:
        prefill: prompt tokens and seconds of single prompts, measured alone, shortest first.
        steps: batch and seconds of decode steps with hardly any context, smallest first.
    """

    prefill: tuple[tuple[float, float], ...] = ()
    steps: tuple[tuple[float, float], ...] = ()
    shape: ModelShape | None = None
    hardware: Hardware | None = None


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One reading of a Ready engine pod's own metrics. Totals run since the engine started."""

    pod: str
    role: Role
    sampled_s: float
    running: float
    waiting: float
    kv_usage_ratio: float | None = None
    kv_capacity_tokens: float | None = None
    itl_sum_s: float | None = None
    itl_count: float | None = None
    generation_tokens_total: float | None = None
    transfer_sum_s: float | None = None
    transfer_count: float | None = None
    start_up: StartUp | None = None


@dataclass(frozen=True, slots=True)
class ArrivalSecond:
    """Requests that entered the router in one second, by prompt-length bucket.

    Attributes:
        cached_by_bucket: the parts of `cached_tokens`; empty if the router does not report them.
    """

    second: int
    requests: tuple[int, ...]
    prompt_tokens: tuple[int, ...]
    cached_tokens: int
    cached_by_bucket: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FinishedSecond:
    """Requests that ended in one second. `finished` includes failed and shed ones, not `gone`.

    `echoes` are those of `blame` that were overdue for more than a minute: they counted then.
    """

    second: int
    finished: int
    good: int
    late_ttft: int
    late_tpot: int
    failed: int
    shed: int
    gone: int
    output_tokens: int
    output_tokens_squared: int
    blame: Mapping[str, int] = field(default_factory=dict)
    echoes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Leg:
    """Running totals of one engine pod as one router sees it; `busy_s` with >= 1 outstanding."""

    pod: str
    role: Role
    busy_s: float
    requests: int
    prompt_tokens: int
    cached_tokens: int
    prompt_token_contexts: float
    output_tokens: int


@dataclass(frozen=True, slots=True)
class SickPod:
    """A Ready engine pod that gets no requests from a router because of its failures."""

    pod: str
    role: Role
    since_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class ClassWindow:
    """Results of one class at one router in the last `window_s`, and its waiting requests."""

    name: str
    window_s: float
    finished: int
    good: int
    output_tokens: int
    good_output_tokens: int
    queued_requests: int


@dataclass(frozen=True, slots=True)
class TenantWindow:
    """Results of one tenant at one router in the last `window_s`.

    Attributes:
        finished: without `limited` ones.
        too_late: the part of `finished` that was refused, because it could not be on time any more.
        shed: the part of `finished` that was shed, because the queue was full or no pod was free.
        limited: requests that a limit of the tenant refused.
    """

    name: str
    window_s: float
    finished: int
    good: int
    too_late: int
    limited: int
    output_tokens: int
    shed: int = 0

    @property
    def refused(self) -> int:
        """Return the requests that the router refused, for any reason."""
        return self.limited + self.too_late + self.shed


@dataclass(frozen=True, slots=True)
class RouterReport:
    """One router's answer to `/arrivals`. Seconds not listed after `started_s` had no event.

    Attributes:
        arrivals, finished, queued_prompt_tokens, overdue_requests: of guaranteed requests alone.
        best_effort: seconds in which requests of best effort came.
        classes: all requests by class, if there are classes.
        tenants: all requests by tenant, if there are tenants.
        held_prompt_tokens: the part of `queued_prompt_tokens` that decode replicas held back for
            most of its wait.
        overdue_requests: waiting requests that became late within the last minute.
        held_overdue_requests: the part of them that decode replicas held back.
        cache_worth_tokens: by prefill pod, what its cache saved this router lately.
        busy_share: of one core, which is all that it can use.
        ended: its process is gone; this is its last history.
        joined: other routers had clients until it took some, and their reports are here too.
        lost_s: when it was found gone, if it still had clients at its last report.
        woken_token_s: time of the first token of a request that had waited for a wake.
    """

    router: str
    sampled_s: float
    started_s: float
    bucket_edges_tokens: tuple[int, ...]
    arrivals: tuple[ArrivalSecond, ...]
    finished: tuple[FinishedSecond, ...]
    queued_requests: int
    queued_prompt_tokens: int
    prefill_requests: int
    decode_requests: int
    legs: tuple[Leg, ...]
    best_effort: tuple[int, ...] = ()
    held_prompt_tokens: int = 0
    overdue_requests: int = 0
    held_overdue_requests: int = 0
    sick: tuple[SickPod, ...] = ()
    cache_worth_tokens: Mapping[str, int] = field(default_factory=dict)
    busy_share: float | None = None
    classes: tuple[ClassWindow, ...] = ()
    tenants: tuple[TenantWindow, ...] = ()
    ended: bool = False
    joined: bool = False
    lost_s: float | None = None
    woken_token_s: float | None = None

    def lost_lately(self, now_s: float, *, tuning: Tuning = TUNING) -> bool:
        """Return whether recent rates lack the requests between its last report and its end."""
        shows_s = tuning.observe.loss_shows_s
        return self.lost_s is not None and 0.0 <= now_s - self.lost_s < shows_s


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Seconds at p50, p95 and p99 of a window; `None` if the window has no request."""

    p50_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None


@dataclass(frozen=True, slots=True)
class Latency:
    """TTFT and TPOT of the recent window, as the router measured them, for status and blame."""

    sampled_s: float
    ttft: Quantiles
    tpot: Quantiles


@dataclass(frozen=True, slots=True)
class Observation:
    """A pool at one moment.

    Attributes:
        replicas: `spec.replicas` of each Deployment; absent: no Deployment yet.
        pods: all engine pods that exist, in any phase.
        routers: the reports that came; fewer than `router_pods` means that some are missing. Those
            of routers that ended do not count.
        router_pods: router pods that should have answered: all that may have clients.
        turned_away: no router is Ready, so new clients find none.
    """

    replicas: Mapping[Role, int]
    pods: tuple[PodState, ...]
    engines: tuple[EngineSample, ...]
    routers: tuple[RouterReport, ...]
    router_pods: int
    latency: Latency | None = None
    turned_away: bool = False
