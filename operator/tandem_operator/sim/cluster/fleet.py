"""The pods of one role of one pool, as its Deployment controls them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic

from tandem_operator.core.role import Role
from tandem_operator.sim.cluster.clock import Clock
from tandem_operator.sim.cluster.pods import Cluster, E, SimulatedPod

DRAIN_LOOK_S = 1.0


@dataclass(slots=True, eq=False)
class SimulatedFleet(Generic[E]):
    """The existing pods and the past ones. The pods whose end costs least leave first.

    Attributes:
        engine: makes the engine of a new pod with this name.
        leaving_cost: returns what the end of a pod costs.
        up_to_date: brings a pod's engine to the present before it is looked at.
        when_ready: called with each pod that becomes ready.
    """

    pool: str
    role: Role
    gpus_per_replica: int
    clock: Clock
    cluster: Cluster
    engine: Callable[[str], E]
    leaving_cost: Callable[[SimulatedPod[E]], int]
    up_to_date: Callable[[SimulatedPod[E]], None]
    when_ready: Callable[[], None]
    asked: int = 0
    pods: list[SimulatedPod[E]] = field(default_factory=list)
    gone: list[SimulatedPod[E]] = field(default_factory=list)
    _made: int = 0

    def begin(self, count: int) -> None:
        """Add pods that are ready from the start."""
        self.asked = count
        for _ in range(count):
            self.cluster.place_ready(self._new())

    @property
    def serving(self) -> list[SimulatedPod[E]]:
        """Return the pods that can get new requests."""
        return [pod for pod in self.pods if pod.serving]

    @property
    def oldest(self) -> SimulatedPod[E] | None:
        """Return the serving pod that was made first."""
        return next(iter(self.serving), None)

    def scale(self, count: int) -> None:
        """Set another count: pods are made, or drained."""
        self.asked = count
        alive = [pod for pod in self.pods if not pod.leaving]
        if len(alive) > count:
            for pod in alive:
                self.up_to_date(pod)
        for pod in sorted(alive, key=self._order)[: max(0, len(alive) - count)]:
            self.drain(pod)
        for _ in range(count - len(alive)):
            self.cluster.place(self._new(), self._ready)

    def drain(self, pod: SimulatedPod[E]) -> None:
        """Let a pod finish its requests and leave."""
        pod.leaving = True
        self._look_at_drain(pod)

    def lose(self, pod: SimulatedPod[E]) -> None:
        """End a pod by its death; the Deployment makes another."""
        self.end(pod, self.clock.now_s)
        self.scale(self.asked)

    def end(self, pod: SimulatedPod[E], at_s: float) -> None:
        """End a pod at `at_s`."""
        pod.gone_s = at_s
        self.pods.remove(pod)
        self.gone.append(pod)
        self.cluster.forget(pod)

    def gpu_seconds(self, end_s: float) -> float:
        """Return the GPU-seconds that all pods held until `end_s`."""
        return sum(pod.gpu_seconds(end_s) for pod in (*self.pods, *self.gone))

    def _new(self) -> SimulatedPod[E]:
        name = f"{self.pool}-{self.role.value}-{self._made}"
        pod = SimulatedPod(
            name=name,
            index=self._made,
            engine=self.engine(name),
            gpus=self.gpus_per_replica,
            created_s=self.clock.now_s,
        )
        self._made += 1
        self.pods.append(pod)
        return pod

    def _ready(self, pod: SimulatedPod[E]) -> None:
        pod.ready_s = self.clock.now_s
        self.when_ready()

    def _look_at_drain(self, pod: SimulatedPod[E]) -> None:
        if pod.gone_s is None:
            self.up_to_date(pod)
        if pod.gone_s is None and (pod.ready_s is None or pod.engine.requests == 0):
            self.end(pod, self.clock.now_s)
        if pod.gone_s is None:
            self.clock.after(DRAIN_LOOK_S, partial(self._look_at_drain, pod))

    def _order(self, pod: SimulatedPod[E]) -> tuple[int, int, int]:
        """Return the order of leaving: unbound, starting, then by cost; of equals the youngest."""
        stage = 0 if pod.bound_s is None else 1 if pod.ready_s is None else 2
        return (stage, self.leaving_cost(pod), -pod.index)
