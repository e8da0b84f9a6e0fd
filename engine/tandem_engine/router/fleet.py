"""The pool's engine pods as this router sees them: who may take new work, and who holds how much.

Load is counted in tokens of outstanding work, so a pod with one long prompt is busier than a pod
with two short ones. A pod whose connection was refused is suspect: it gets nothing until it is
seen Ready again or answers a probe. A pod that was silent for too long is in doubt until a probe
tells whether it is frozen (then it is suspect) or only slow; for that moment its work waits.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from tandem_engine.router.stalls import Stalls
from tandem_engine.router.stopwatch import Stopwatch


class Role(StrEnum):
    """What an engine pod does."""

    PREFILL = "prefill"
    DECODE = "decode"


class Deserted(Exception):  # noqa: N818 - an event of ordinary operation, not a fault
    """There is no decode pod, and this router is too near its end to wait for one."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One engine pod as its source shows it."""

    name: str
    role: Role
    host: str
    port: int
    revision: str = ""
    ready: bool = True
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """What one request, or several together, are to a pod.

    Attributes:
        tokens: prompts and, at decode pods, the answers expected.
        work_s: seconds of prefill as far as known.
        streams: answers that are made at once.
        output_tokens: the expected answers alone, all of them.
    """

    tokens: int
    work_s: float = 0.0
    streams: int = 1
    output_tokens: int = 0

    def __add__(self, other: "Load") -> "Load":
        return Load(
            tokens=self.tokens + other.tokens,
            work_s=self.work_s + other.work_s,
            streams=self.streams + other.streams,
            output_tokens=self.output_tokens + other.output_tokens,
        )

    def __sub__(self, other: "Load") -> "Load":
        return Load(
            tokens=self.tokens - other.tokens,
            work_s=self.work_s - other.work_s,
            streams=self.streams - other.streams,
            output_tokens=self.output_tokens - other.output_tokens,
        )


NO_LOAD = Load(tokens=0, streams=0)


class Pod:
    """One engine pod and what this router has outstanding there.

    Attributes:
        requests, streams, tokens, output_tokens: outstanding now.
        others: streams that the engine has from elsewhere, as last seen.
        entries: how many requests ever came, to tell whether one had the pod to itself.
        stalls: prompts that it computes although it is a decode pod.
        legs: the deadlines of the prompts under way at a prefill pod.
    """

    __slots__ = (
        "_begun_s",
        "_later_s",
        "_work_s",
        "doubted",
        "endpoint",
        "entries",
        "legs",
        "others",
        "output_tokens",
        "requests",
        "stalls",
        "streams",
        "suspect",
        "tokens",
    )

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.suspect = False
        self.doubted = False
        self.requests = 0
        self.streams = 0
        self.tokens = 0
        self.output_tokens = 0
        self.others = 0
        self.entries = 0
        self.stalls = Stalls()
        self.legs: set[asyncio.Timeout] = set()
        # What came when the work before it was overdue already is not what is late.
        self._later_s = 0.0
        self._work_s = 0.0
        self._begun_s = 0.0

    @property
    def name(self) -> str:
        """Return the pod's name."""
        return self.endpoint.name

    @property
    def url(self) -> str:
        """Return the base URL of the pod's engine."""
        host = self.endpoint.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.endpoint.port}"

    def enter(self, load: Load, now: float) -> None:
        """Count a request that goes to this pod."""
        if not self.requests:
            self._begun_s = now
        if now > self._begun_s + self._work_s:
            self._later_s += load.work_s
        else:
            self._work_s += load.work_s
        self.requests += 1
        self.entries += 1
        self.streams += load.streams
        self.tokens += load.tokens
        self.output_tokens += load.output_tokens

    def leave(self, load: Load, now: float) -> None:
        """Count a request that is no longer at this pod: what is left there begins now."""
        self.requests -= 1
        self.streams -= load.streams
        self.tokens -= load.tokens
        self.output_tokens -= load.output_tokens
        self._work_s = self._work_s + self._later_s - load.work_s if self.requests else 0.0
        self._later_s = 0.0
        self._begun_s = now

    def free_s(self, now: float) -> float:
        """Return when the prefill work outstanding here should be done.

        What is overdue is taken to need as long again: nobody should count on a pod that is silent.
        """
        due_s = max(now, self._begun_s + self._work_s)
        return due_s + self.overdue_s(now) + self._later_s

    def overdue_s(self, now: float) -> float:
        """Return for how long the work outstanding here should have been done, as far as known."""
        if not self.requests or self._work_s <= 0.0:
            return 0.0
        return max(0.0, now - self._begun_s - self._work_s)

    @contextmanager
    def prefilling(self, leg: asyncio.Timeout) -> Iterator[None]:
        """Know the deadline of a prompt as long as it is under way here."""
        self.legs.add(leg)
        try:
            yield
        finally:
            self.legs.discard(leg)

    def give_up(self) -> None:
        """End the prompts under way here as if their time were over."""
        for leg in self.legs:
            if not leg.expired():
                leg.reschedule(asyncio.get_running_loop().time())

    @property
    def usable(self) -> bool:
        """Return whether a new request may go here."""
        return self.standing and not self.suspect and not self.doubted

    @property
    def standing(self) -> bool:
        """Return whether its source shows this pod as one for new requests."""
        return self.endpoint.ready and not self.endpoint.leaving


class Fleet:
    """All engine pods of the pool; listeners hear of every change in who is usable."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pods: dict[str, Pod] = {}
        self._listeners: list[Callable[[], None]] = []
        self._change: asyncio.Future[None] | None = None
        self._without_decode = Stopwatch()
        self._without_decode.turn(on=True, now=clock())
        self._closing = False

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

    def suspect(self, pod: Pod) -> None:
        """Send nothing to `pod` until it is seen Ready again or answers a probe.

        In doubt already, it was silent for too long: then it is frozen, and what it has ends too.
        """
        if pod.doubted:
            pod.give_up()
        pod.suspect, pod.doubted = True, False
        self.announce()

    def doubt(self, pod: Pod) -> None:
        """Send nothing to `pod` until a probe has told what it is.

        A suspect pod gets nothing already: that it is silent too tells that it is frozen.
        """
        if pod.suspect:
            pod.give_up()
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
        """Send work to `pod` again."""
        pod.suspect = pod.doubted = False
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
            pod.endpoint = endpoint
            pod.suspect = pod.suspect and not endpoint.ready
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


def least_loaded(pods: Iterable[Pod]) -> Pod | None:
    """Return the pod with the least outstanding work in tokens."""
    return min(pods, key=lambda pod: (pod.tokens, pod.requests, pod.name), default=None)
