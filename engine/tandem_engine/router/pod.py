"""One engine pod as this router sees it, and what the router has outstanding there.

Load is counted in tokens of outstanding work, so a pod with one long prompt is busier than a pod
with two short ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tandem_engine.router.health import Health
from tandem_engine.router.kv_lease import PeerClock
from tandem_engine.router.stalls import Stalls


class Role(StrEnum):
    """What an engine pod does."""

    PREFILL = "prefill"
    DECODE = "decode"


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
        clock: the clock by which a prefill pod tells when leases end.
        names_leases: whether a prefill pod can let go of a lease by the router's name for it.
        doubted: it was silent for too long, and a probe tells whether it is frozen.
        health: what became of the work that it had.
    """

    __slots__ = (
        "_begun_s",
        "_later_s",
        "_work_s",
        "clock",
        "doubted",
        "endpoint",
        "entries",
        "health",
        "names_leases",
        "others",
        "output_tokens",
        "requests",
        "stalls",
        "streams",
        "tokens",
    )

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.doubted = False
        self.requests = 0
        self.streams = 0
        self.tokens = 0
        self.output_tokens = 0
        self.others = 0
        self.entries = 0
        self.stalls = Stalls()
        self.clock = PeerClock()
        self.names_leases = False
        self.health = Health()
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
        self.health.entered(now)
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

    @property
    def weight(self) -> int:
        """Return the tokens it has, and those of work that it failed just now.

        Else a pod that fails at once would be the idlest, and get all there is.
        """
        return self.tokens + self.health.lost_tokens

    @property
    def usable(self) -> bool:
        """Return whether a new request may go here."""
        return self.standing and not self.doubted and self.health.admits

    @property
    def standing(self) -> bool:
        """Return whether its source shows this pod as one for new requests."""
        return self.endpoint.ready and not self.endpoint.leaving


def least_loaded(pods: Iterable[Pod]) -> Pod | None:
    """Return the pod with the least outstanding work in tokens."""
    return min(pods, key=lambda pod: (pod.weight, pod.requests, pod.name), default=None)
