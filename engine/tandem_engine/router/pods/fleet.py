"""The pool's engine pods as this router sees them: who may take new work.

What became of a pod's work says whether it is ejected (`ejection`). A pod that was silent for too
long is in doubt until a probe tells whether it is frozen (then it is ejected) or only slow; for
that moment its work waits.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable

from tandem_engine.router.pods.ejection import Ejection
from tandem_engine.router.pods.health import CERTAIN, State, Why
from tandem_engine.router.pods.pod import Endpoint, Pod, Role
from tandem_engine.router.stopwatch import Stopwatch


class Deserted(Exception):  # noqa: N818 - an event of ordinary operation, not a fault
    """There is no decode pod, and this router is too near its end to wait for one."""


class EnginePods:
    """All engine pods of the pool; listeners hear of every change in who is usable.

    Attributes:
        listed: whether a whole listing has come: until then there may be pods that nobody knows of.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pods: dict[str, Pod] = {}
        self._listeners: list[Callable[[], None]] = []
        self._change: asyncio.Future[None] | None = None
        self._without_decode = Stopwatch()
        self._without_decode.turn(on=True, now=clock())
        self._closing = False
        self.listed = False
        self.ejection = Ejection(pods=self._pods.values, changed=self.announce, clock=clock)

    def close(self) -> None:
        """Wait for no pod any more: another router, or this one's successor, will know of it."""
        self._closing = True
        self.announce()

    @property
    def deserted(self) -> bool:
        """Return whether nobody should wait for a decode pod here."""
        return self._closing and not self.usable(Role.DECODE)

    def listen(self, listener: Callable[[], None]) -> None:
        """Have `listener` called after each change."""
        self._listeners.append(listener)

    async def change(self) -> None:
        """Wait for the next change."""
        if self._change is None:
            self._change = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._change)

    def pods(self) -> tuple[Pod, ...]:
        """Return every known pod."""
        return tuple(self._pods.values())

    def replace(self, endpoints: Iterable[Endpoint]) -> None:
        """Take a whole listing: what is not in it exists no more."""
        seen = {endpoint.name: endpoint for endpoint in endpoints}
        for name in self._pods.keys() - seen.keys():
            self._drop(name)
        for endpoint in seen.values():
            self._put(endpoint)
        self.listed = True
        self.announce()

    def upsert(self, endpoint: Endpoint) -> None:
        """Take one pod's newest state."""
        self._put(endpoint)
        self.announce()

    def remove(self, name: str) -> None:
        """Forget a pod that exists no more."""
        if name in self._pods:
            self._drop(name)
            self.announce()

    def find(self, name: str | None) -> Pod | None:
        """Return the pod of that name, if it still exists."""
        return None if name is None else self._pods.get(name)

    def freeze(self, pod: Pod) -> None:
        """Send nothing to `pod`, which does not answer at all, and end what waits for it."""
        pod.doubted = False
        self.ejection.eject(pod, Why.SILENT)
        pod.health.give_up()

    def doubt(self, pod: Pod) -> None:
        """Send nothing to `pod` until a probe has told what it is.

        One that refused connections gets nothing already: that it is silent too tells that it is
        frozen.
        """
        if pod.health.state is State.OUT and pod.health.why in CERTAIN:
            pod.health.give_up()
            return
        pod.doubted = True
        self.announce()

    def doubtful(self, role: Role, *, revisions: Collection[str]) -> bool:
        """Return whether a probe may soon make a pod of `role` usable."""
        return any(
            pod.doubted
            and pod.standing
            and pod.endpoint.role is role
            and pod.endpoint.revision in revisions
            for pod in self._pods.values()
        )

    def trust(self, pod: Pod) -> None:
        """Doubt `pod` no more: it is slow, and whether it gets work its outcomes say."""
        pod.doubted = False
        self.announce()

    def usable(self, role: Role, *, revisions: Collection[str] | None = None) -> list[Pod]:
        """Return the pods of `role` that may take new work."""
        return [
            pod
            for pod in self._pods.values()
            if pod.endpoint.role is role
            and pod.usable
            and (revisions is None or pod.endpoint.revision in revisions)
        ]

    def revisions(self, role: Role) -> set[str]:
        """Return the revisions that have a usable pod of `role`."""
        return {pod.endpoint.revision for pod in self.usable(role)}

    def without_decode_s(self, now: float) -> float:
        """Return for how long, in all, no decode pod was usable since the router started."""
        return self._without_decode.total_s(now)

    def _put(self, endpoint: Endpoint) -> None:
        pod = self._pods.get(endpoint.name)
        if pod is not None and (pod.endpoint.host, pod.endpoint.port) == (
            endpoint.host,
            endpoint.port,
        ):
            came_back = endpoint.ready and not pod.endpoint.ready
            pod.endpoint = endpoint
            if came_back or (endpoint.ready and pod.health.why in CERTAIN):
                self.ejection.try_again(pod)
        else:
            if pod is not None:
                self._drop(endpoint.name)
            self._pods[endpoint.name] = Pod(endpoint)

    def _drop(self, name: str) -> None:
        pod = self._pods.pop(name)
        pod.endpoint = Endpoint(
            name=name,
            role=pod.endpoint.role,
            host=pod.endpoint.host,
            port=pod.endpoint.port,
            revision=pod.endpoint.revision,
            ready=False,
            leaving=True,
        )

    def announce(self) -> None:
        """Tell everybody who waits for a change that something they depend on changed."""
        self._without_decode.turn(on=not self.usable(Role.DECODE), now=self._clock())
        if self._change is not None:
            self._change.set_result(None)
            self._change = None
        for listener in self._listeners:
            listener()
