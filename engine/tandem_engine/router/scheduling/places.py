"""What was let in: where it counts, from its turn in the queue until it is at no pod any more."""

from collections.abc import Callable

from tandem_engine.router.pods.pod import Pod
from tandem_engine.router.scheduling.caches import PrefillCaches
from tandem_engine.router.scheduling.placement import DecodeOnly, PrefillPlacement
from tandem_engine.router.scheduling.underway import Underway
from tandem_engine.router.scheduling.waiter import Waiter
from tandem_routing.best_effort import Guaranteed
from tandem_routing.deadline_queue import Turn
from tandem_routing.outstanding import Load


class Places:
    """Keeps account of the places that requests have; `freed` is called whenever one has less.

    Attributes:
        coming: what is at no decode pod yet.
        guaranteed: what guaranteed requests needed lately, where there are classes.
    """

    def __init__(
        self, *, caches: PrefillCaches, clock: Callable[[], float], freed: Callable[[], None]
    ) -> None:
        self.coming = Underway()
        self.guaranteed = Guaranteed()
        self._caches = caches
        self._clock = clock
        self._freed = freed
        self._loads: dict[PrefillPlacement, Load] = {}
        self._computing: dict[PrefillPlacement, Pod] = {}
        self._at_prefill: set[PrefillPlacement] = set()

    def take(
        self,
        turn: Turn[Waiter],
        pod: Pod | None,
        decode_only: DecodeOnly | None = None,
        *,
        decode: Pod | None = None,
    ) -> PrefillPlacement:
        """Send a request that has left the queue on its way."""
        waiter, expected = turn.waiter, turn.expected
        name = None if pod is None else pod.name
        work_s = expected.work_s(alone=pod is None or not pod.requests, at=name)
        held, cached = 0, 0
        if name is not None:
            held, cached = expected.held_tokens(name), expected.cached_tokens(name)
        placement = PrefillPlacement(
            pod,
            Load(waiter.tokens - cached, work_s),
            decode_only,
            decode,
            prefix=waiter.prefix,
            held_share=held / max(1, waiter.tokens),
            expected=expected,
        )
        if pod is not None:
            self._caches.sent(pod, waiter.prefix)
            self._caches.worth.add(pod, expected.saved_tokens(pod.name), now=self._clock())
            pod.enter(placement.load, self._clock())
            self._at_prefill.add(placement)
        self.coming.begin(placement, turn.decode_load)
        if waiter.slo_class is not None and not waiter.rank.best_effort:
            self._loads[placement] = turn.decode_load
            self.guaranteed.began(turn.decode_load, now=self._clock())
        waiter.placed.set_result(placement)
        return placement

    def take_whole(self, turn: Turn[Waiter], pod: Pod) -> None:
        """Send a request whole to a decode pod that has slack for it."""
        pod.stalls.begin(turn.expected.whole_s, self._clock())
        placement = self.take(turn, None, DecodeOnly.OVERFLOW, decode=pod)
        self._computing[placement] = pod

    def give_back(self, placement: PrefillPlacement) -> None:
        """Take back what is left of a place: at its pods nothing of it counts any more."""
        load = self._loads.pop(placement, None)
        if load is not None:
            self.guaranteed.ended(load)
        self.left_prefill(placement)
        self.computed(placement)
        self.arrived(placement)

    def arrived(self, placement: PrefillPlacement) -> None:
        """Take note that a request is at its decode pod, or never will be."""
        if self.coming.end(placement):
            self._freed()

    def computed(self, placement: PrefillPlacement) -> None:
        """Take note that a decode pod has computed a prompt by itself, or never will."""
        pod = self._computing.pop(placement, None)
        if pod is not None:
            pod.stalls.end()
            self._freed()

    def left_prefill(self, placement: PrefillPlacement, *, computed: bool = False) -> None:
        """Take note that a request has left its prefill pod, or never will be there.

        `computed`: the pod has its prompt in its cache now.
        """
        if placement.prefill is not None and placement in self._at_prefill:
            self._at_prefill.discard(placement)
            self._caches.ended(placement.prefill, placement.prefix, computed=computed)
            self.release(placement.prefill, placement.load)

    def sent_again(self, placement: PrefillPlacement, pod: Pod) -> None:
        """Take note that a request that failed at its prefill pod is at another one, `pod`."""
        self._caches.sent(pod, placement.prefix)
        pod.enter(placement.load, self._clock())

    def left_again(self, placement: PrefillPlacement, pod: Pod, *, computed: bool = False) -> None:
        """Take note that it has left that one too."""
        self._caches.ended(pod, placement.prefix, computed=computed)
        self.release(pod, placement.load)

    def release(self, pod: Pod, load: Load) -> None:
        """Take note that a request has left `pod`, where `load` counted."""
        pod.leave(load, self._clock())
        self._freed()
