"""The engine pods of the pool as this router sees them, and which of them are usable.

The results of a pod's work decide whether it is ejected (`ejection`). A pod that was silent for too
long is in doubt. A probe then shows whether it is frozen, and ejected, or only slow. Until then its
work waits.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable

from tandem_engine.router.pods.ejection import Ejection
from tandem_engine.router.pods.health import CERTAIN, State, Why
from tandem_engine.router.pods.pod import Endpoint, Pod, Role
from tandem_engine.router.stopwatch import Stopwatch


class Deserted(Exception):  # noqa: N818 - an event of ordinary operation, not a fault
    """There is no decode pod, and this router ends too soon to wait for one."""


class EnginePods:
    """All engine pods of the pool; listeners are called after every change of the usable pods.

    Attributes:
        listed: whether a whole listing has come; before that, some pods may be unknown.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pods: dict[str, Pod] = {}
        self._listeners: list[Callable[[], None]] = []
        self._mourners: list[Callable[[Pod], None]] = []
        self._change: asyncio.Future[None] | None = None
        self._usable: dict[Role, list[Pod]] = {}
        self._without_decode = Stopwatch()
        self._without_decode.turn(on=True, now=clock())
        self._at_zero = Stopwatch()
        self._wanted_s: float | None = None
        self._closing = False
        self.listed = False
        self.ejection = Ejection(pods=self._pods.values, changed=self.announce, clock=clock)

    def close(self) -> None:
        """Stop waiting for pods: another router, or the next one, will see them."""
        self._closing = True
        self.announce()

    @property
    def deserted(self) -> bool:
        """Return whether no request should wait for a decode pod here."""
        return self._closing and not self.usable(Role.DECODE)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change."""
        self._listeners.append(listener)

    def listen_for_ends(self, mourner: Callable[[Pod], None]) -> None:
        """Call `mourner` with each pod whose engine is gone or restarted."""
        self._mourners.append(mourner)

    async def change(self) -> None:
        """Wait for the next change."""
        if self._change is None:
            self._change = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._change)

    def pods(self) -> tuple[Pod, ...]:
        """Return every known pod."""
        return tuple(self._pods.values())

    def replace(self, endpoints: Iterable[Endpoint]) -> None:
        """Replace all pods by a whole listing."""
        seen = {endpoint.name: endpoint for endpoint in endpoints}
        for name in self._pods.keys() - seen.keys():
            self._drop(name)
        for endpoint in seen.values():
            self._put(endpoint)
        self.listed = True
        self.announce()

    def upsert(self, endpoint: Endpoint) -> None:
        """Store the newest state of one pod."""
        self._put(endpoint)
        self.announce()

    def remove(self, name: str) -> None:
        """Remove a pod that no longer exists."""
        if name in self._pods:
            self._drop(name)
            self.announce()

    def find(self, name: str | None) -> Pod | None:
        """Return the pod of that name, if it still exists."""
        return None if name is None else self._pods.get(name)

    def freeze(self, pod: Pod) -> None:
        """Send nothing to `pod`, which does not answer at all, and end its waiting requests."""
        pod.doubted = False
        self._usable.clear()
        self.ejection.eject(pod, Why.SILENT)
        pod.health.give_up()

    def doubt(self, pod: Pod) -> None:
        """Send nothing to `pod` until a probe has shown its state.

        A pod that refused connections already gets nothing. Its silence shows that it is frozen.
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
        """End the doubt about `pod`: it is only slow, and its results decide about further work."""
        pod.doubted = False
        self.announce()

    def usable(self, role: Role, *, revisions: Collection[str] | None = None) -> list[Pod]:
        """Return the pods of `role` that can take new work, as a list to read."""
        pods = self._usable.get(role)
        if pods is None:
            known = [pod for pod in self._pods.values() if pod.endpoint.role is role]
            pods = [pod for pod in known if pod.usable]
            # Of a pod on trial this can change without an announcement.
            if all(pod.health.state is not State.TRIAL for pod in known):
                self._usable[role] = pods
        if revisions is None:
            return pods
        return [pod for pod in pods if pod.endpoint.revision in revisions]

    def revisions(self, role: Role) -> set[str]:
        """Return the revisions that have a usable pod of `role`."""
        return {pod.endpoint.revision for pod in self.usable(role)}

    def without_decode_s(self, now: float) -> float:
        """Return the total time without a usable decode pod since the router started."""
        return self._without_decode.total_s(now)

    @property
    def at_zero(self) -> bool:
        """Return whether the pool had no engine pod, and no decode pod has been usable since."""
        return self._at_zero.running

    def wanted_s(self, now: float) -> float:
        """Return the time since which requests wait for a pool at zero; now for the first one."""
        if self._wanted_s is None:
            self._wanted_s = now
        return self._wanted_s

    def at_zero_s(self, now: float) -> float:
        """Return the total time for which the pool was at zero."""
        return self._at_zero.total_s(now)

    def _put(self, endpoint: Endpoint) -> None:
        self._usable.clear()
        pod = self._pods.get(endpoint.name)
        if pod is not None and (pod.endpoint.host, pod.endpoint.port) == (
            endpoint.host,
            endpoint.port,
        ):
            came_back = endpoint.ready and not pod.endpoint.ready
            if endpoint.restarts != pod.endpoint.restarts:
                self._mourn(pod)
            pod.endpoint = endpoint
            if came_back or (endpoint.ready and pod.health.why in CERTAIN):
                self.ejection.try_again(pod)
        else:
            if pod is not None:
                self._drop(endpoint.name)
            self._pods[endpoint.name] = Pod(endpoint)

    def _drop(self, name: str) -> None:
        self._usable.clear()
        pod = self._pods.pop(name)
        self._mourn(pod)
        pod.endpoint = Endpoint(
            name=name,
            role=pod.endpoint.role,
            host=pod.endpoint.host,
            port=pod.endpoint.port,
            revision=pod.endpoint.revision,
            ready=False,
            leaving=True,
        )

    def _mourn(self, pod: Pod) -> None:
        for mourner in self._mourners:
            mourner(pod)

    def announce(self) -> None:
        """Wake all waiters for a change."""
        self._usable.clear()
        now, serves = self._clock(), bool(self.usable(Role.DECODE))
        self._without_decode.turn(on=not serves, now=now)
        if serves:
            self._at_zero.turn(on=False, now=now)
            self._wanted_s = None
        elif self.listed and all(pod.endpoint.leaving for pod in self._pods.values()):
            self._at_zero.turn(on=True, now=now)
        if self._change is not None:
            self._change.set_result(None)
            self._change = None
        for listener in self._listeners:
            listener()
