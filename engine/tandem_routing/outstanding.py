"""The outstanding work of one router at one engine pod, and when it should be done.

Load is counted in tokens of outstanding work. So a pod with one long prompt is busier than a pod
with two short ones.
"""

from dataclasses import dataclass

from tandem_routing.stalls import Stalls


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one request, or of several together, on a pod.

    Attributes:
        tokens: prompts and, at decode pods, the answers expected.
        work_s: seconds of prefill as far as known.
        streams: number of answers at once.
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


class Outstanding:
    """The outstanding work of a router at one pod.

    Attributes:
        requests, streams, tokens, output_tokens: outstanding now.
        others: streams of other routers at the engine, as last seen.
        entries: number of requests that ever came, to find out if one was alone on the pod.
        stalls: prompts that it computes although it is a decode pod.
    """

    __slots__ = (
        "_begun_s",
        "_later_s",
        "_work_s",
        "entries",
        "name",
        "others",
        "output_tokens",
        "requests",
        "stalls",
        "streams",
        "tokens",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = 0
        self.streams = 0
        self.tokens = 0
        self.output_tokens = 0
        self.others = 0
        self.entries = 0
        self.stalls = Stalls()
        # What came when the work before it was overdue already is not what is late.
        self._later_s = 0.0
        self._work_s = 0.0
        self._begun_s = 0.0

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
        """Count a request that left this pod: the remaining work there begins now."""
        self.requests -= 1
        self.streams -= load.streams
        self.tokens -= load.tokens
        self.output_tokens -= load.output_tokens
        self._work_s = self._work_s + self._later_s - load.work_s if self.requests else 0.0
        self._later_s = 0.0
        self._begun_s = now

    def free_s(self, now: float) -> float:
        """Return when the outstanding prefill work here should be done.

        Overdue work is assumed to take as long again, so that no request counts on a silent pod.
        """
        due_s = max(now, self._begun_s + self._work_s)
        return due_s + self.overdue_s(now) + self._later_s

    def overdue_s(self, now: float) -> float:
        """Return how long ago the outstanding work here should have been done, as far as known."""
        if not self.requests or self._work_s <= 0.0:
            return 0.0
        return max(0.0, now - self._begun_s - self._work_s)

    @property
    def weight(self) -> int:
        """Return the tokens by which the router compares pods."""
        return self.tokens
