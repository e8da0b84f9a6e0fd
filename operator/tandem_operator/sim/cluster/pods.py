"""The life of pods: created, bound to GPUs, starting, ready, draining, gone."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import log
from random import Random
from typing import Generic, Protocol, TypeVar

from tandem_operator.core.observation import PodPhase
from tandem_operator.sim.cluster.clock import Clock
from tandem_operator.sim.cluster.faults import CapacityBlocked, Fault, SlowStarts, during
from tandem_operator.sim.flight import SimulatedFlight


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Seconds from binding to Ready: lognormal around a median, cut at three times the median."""

    median_s: float = 60.0
    sigma: float = 0.0

    def draw_s(self, random: Random) -> float:
        """Return one start-up time."""
        if self.sigma == 0.0 or self.median_s <= 0.0:
            return self.median_s
        drawn_s = random.lognormvariate(log(self.median_s), self.sigma)
        return min(drawn_s, 3.0 * self.median_s)


class PodEngine(Protocol):
    """The interface between a pod's life and the engine in it."""

    slowdown: float

    @property
    def requests(self) -> int:
        """Return the requests that are here, waiting or running."""

    def drop_all(self) -> list[SimulatedFlight]:
        """Drop all requests and return them."""


E = TypeVar("E", bound=PodEngine)
F = TypeVar("F", CapacityBlocked, SlowStarts)
Started = Callable[[], None]


@dataclass(slots=True, eq=False)
class SimulatedPod(Generic[E]):
    """One engine pod. GPUs are held from `bound_s` until `gone_s`."""

    name: str
    index: int
    engine: E
    gpus: int
    created_s: float
    bound_s: float | None = None
    ready_s: float | None = None
    leaving: bool = False
    gone_s: float | None = None

    @property
    def serving(self) -> bool:
        """Return whether new requests may go to this pod."""
        return self.ready_s is not None and not self.leaving

    @property
    def phase(self) -> PodPhase:
        """Return the phase as the API server would show it."""
        if self.leaving:
            return PodPhase.TERMINATING
        if self.ready_s is not None:
            return PodPhase.READY
        return PodPhase.UNSCHEDULED if self.bound_s is None else PodPhase.STARTING

    def gpu_seconds(self, end_s: float) -> float:
        """Return the GPU-seconds held until `end_s`."""
        if self.bound_s is None:
            return 0.0
        gone_s = end_s if self.gone_s is None else min(self.gone_s, end_s)
        return self.gpus * max(0.0, gone_s - self.bound_s)


@dataclass(slots=True)
class Cluster:
    """The GPUs that all pools share, and the pods that wait for GPUs, in order of creation."""

    clock: Clock
    random: Random
    cold_start: ColdStart
    gpus: int | None = None
    faults: tuple[Fault, ...] = ()
    held: int = 0
    most_held: int = 0
    _unbound: dict[str, tuple[int, Started]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for fault in self.faults:
            if isinstance(fault, CapacityBlocked):
                self.clock.at(fault.until_s, self._bind)

    def place(self, pod: SimulatedPod[E], when_ready: Callable[[SimulatedPod[E]], None]) -> None:
        """Bind the pod once there is room, start it, and call `when_ready` when it is ready."""
        self._unbound[pod.name] = (pod.gpus, partial(self._start, pod, when_ready))
        self._bind()

    def place_ready(self, pod: SimulatedPod[E]) -> None:
        """Add a pod that existed before the simulation began."""
        self._hold(pod)
        pod.ready_s = self.clock.now_s

    def forget(self, pod: SimulatedPod[E]) -> None:
        """Release a pod that ended, bound or not."""
        self._unbound.pop(pod.name, None)
        if pod.bound_s is not None:
            self.held -= pod.gpus
            self._bind()

    def _bind(self) -> None:
        """Bind every pod that fits; a pod that does not fit blocks no smaller one."""
        if self._on(CapacityBlocked):
            return
        for name, (gpus, start) in list(self._unbound.items()):
            if self.gpus is None or self.held + gpus <= self.gpus:
                del self._unbound[name]
                start()

    def _start(self, pod: SimulatedPod[E], when_ready: Callable[[SimulatedPod[E]], None]) -> None:
        self._hold(pod)
        start_s = self.cold_start.draw_s(self.random)
        for fault in self._on(SlowStarts):
            start_s *= fault.factor
        self.clock.after(start_s, partial(_become_ready, pod, when_ready))

    def _hold(self, pod: SimulatedPod[E]) -> None:
        pod.bound_s = self.clock.now_s
        self.held += pod.gpus
        self.most_held = max(self.most_held, self.held)

    def _on(self, kind: type[F]) -> list[F]:
        return [f for f in self.faults if isinstance(f, kind) and during(f, self.clock.now_s)]


def _become_ready(pod: SimulatedPod[E], when_ready: Callable[[SimulatedPod[E]], None]) -> None:
    if not pod.leaving and pod.gone_s is None:
        when_ready(pod)
