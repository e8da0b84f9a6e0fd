"""Finds the pods of one request: those with room, and of these the one that it goes to."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.pod import Pod, Role
from tandem_engine.router.scheduling.caches import PrefillCaches
from tandem_engine.router.scheduling.placement import DecodeOnly
from tandem_engine.router.scheduling.underway import Underway
from tandem_engine.router.scheduling.waiter import Waiter
from tandem_routing.best_effort import WithReserve
from tandem_routing.deadline_queue import Turn, Unfit
from tandem_routing.outstanding import NO_LOAD, Load
from tandem_routing.pairing import Gate, bearing, pair
from tandem_routing.pod_choice import Room
from tandem_routing.prefix_placement import ToCompute


@dataclass(frozen=True, slots=True)
class QueueLook:
    """What one look at the queue goes by.

    Attributes:
        known: usable prefill pods.
        prefill: those of them that have a decode pod to pair with.
        alone: why nobody uses a prefill pod, if so.
        decode_pods, decode: usable decode pods, all of them and by revision.
    """

    known: Sequence[Pod]
    prefill: Sequence[Pod]
    alone: DecodeOnly | None
    decode_pods: Sequence[Pod]
    decode: Mapping[str, Sequence[Pod]]
    settings: RouterSettings

    @classmethod
    def at(cls, fleet: EnginePods, settings: RouterSettings) -> "QueueLook | None":
        """Return it for the pods as they are now; `None`: no decode pod is usable."""
        pods, decode = fleet.usable(Role.DECODE), defaultdict[str, list[Pod]](list)
        for pod in pods:
            decode[pod.endpoint.revision].append(pod)
        if not pods:
            return None
        known = fleet.usable(Role.PREFILL)
        prefill = [pod for pod in known if pod.endpoint.revision in decode]
        alone: DecodeOnly | None = None
        if not prefill and not fleet.doubtful(Role.PREFILL, revisions=decode):
            alone = DecodeOnly.NO_PAIR if known else DecodeOnly.NO_PREFILL
        return cls(known, prefill, alone, pods, decode, settings)

    def still_holds(self, fleet: EnginePods, settings: RouterSettings) -> bool:
        """Return whether it is what `at` would return now; a fleet keeps its lists until a change.

        Pods in doubt count where none is usable.
        """
        return (
            bool(self.prefill)
            and settings is self.settings
            and self.decode_pods is fleet.usable(Role.DECODE)
            and self.known is fleet.usable(Role.PREFILL)
        )

    def reason(self, waiter: Waiter) -> DecodeOnly | None:
        """Return why a request uses no prefill pod; `None`: it uses one."""
        return self.alone if waiter.split else DecodeOnly.UNSUPPORTED

    def room(self, waiter: Waiter) -> list[Pod] | None:
        """Return the prefill pods that take its prompt too; `None`: it uses none."""
        if self.reason(waiter) is not None:
            return None
        limits = self.settings.limits
        most = Room(requests=limits.prefill_requests_per_pod, tokens=limits.prefill_tokens_per_pod)
        return most.at(self.prefill, prompt_tokens=waiter.tokens)


class PodFinder:
    """Chooses among pods by what was let in and what pods have cached."""

    def __init__(
        self, *, coming: Underway, caches: PrefillCaches, clock: Callable[[], float]
    ) -> None:
        self._coming = coming
        self._caches = caches
        self._clock = clock

    def find(
        self,
        turn: Turn[Waiter],
        room: Sequence[Pod],
        look: QueueLook,
        *,
        late: bool,
        reserve: Load = NO_LOAD,
    ) -> tuple[Pod | None, bool]:
        """Return the one of `room` to go to, if any is given, and whether decode pods bear it.

        They bear the `reserve` beside it. Raises `Unfit` where nothing can be said of it.
        """
        try:
            return self._found(turn, room, look, late=late, reserve=reserve)
        except Exception as error:
            raise Unfit(turn.waiter) from error

    def _found(
        self,
        turn: Turn[Waiter],
        room: Sequence[Pod],
        look: QueueLook,
        *,
        late: bool,
        reserve: Load,
    ) -> tuple[Pod | None, bool]:
        load, pace = turn.decode_load, look.settings.decode
        gate = Gate(
            pace if pace is not None and pace.gate else None,
            tpot_s=look.settings.slo.tpot_s,
            late=late,
            now=self._clock(),
        )
        coming = self._coming if reserve is NO_LOAD else WithReserve(self._coming, reserve)
        if not room:
            return None, bool(bearing(load, look.decode, coming=coming, gate=gate))
        prompt = ToCompute(turn.waiter.tokens, turn.expected, self._caches)
        pod = pair(load, room, look.decode, prompt=prompt, coming=coming, gate=gate)
        return pod, pod is not None
