"""The queries and answers of a source of metrics. A missing value is named, not zero."""

from dataclasses import dataclass
from typing import Protocol

from tandem_contracts.names import CONTROL_PORT, HTTP_PORT, ROUTER_INTERNAL_PORT
from tandem_operator.core.observation import EngineSample, Latency
from tandem_operator.core.role import Role

LATENCY_WINDOW_S = 120.0
MAX_AGE_S = 30.0
"""The highest age of a used sample: about the longest scrape interval in common use."""


@dataclass(frozen=True, slots=True)
class EngineTarget:
    """A Ready engine pod and its address."""

    pod: str
    role: Role
    host: str
    port: int = HTTP_PORT
    control_port: int = CONTROL_PORT


@dataclass(frozen=True, slots=True)
class RouterTarget:
    """A router pod that may have clients, and the address of its internal port.

    Attributes:
        opened_s: since when it takes new clients; `None` if it does not, or not any more.
        closed_s: when it was told to end or stopped being Ready; `None` while it takes clients.
    """

    pod: str
    host: str
    port: int = ROUTER_INTERNAL_PORT
    opened_s: float | None = None
    closed_s: float | None = None


def base_url(host: str, port: int) -> str:
    """Return the URL of a pod's port, without a path."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@dataclass(frozen=True, slots=True)
class Targets:
    """The pods of one pool that should have metrics now."""

    namespace: str
    pool: str
    engines: tuple[EngineTarget, ...]
    routers: tuple[RouterTarget, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer of a source. `problems` names missing values in words.

    Attributes:
        fault: why a server gave no data at all; the same words while the cause stays.
        silent: whether the cause is that it did not answer in time.
    """

    engines: tuple[EngineSample, ...]
    latency: Latency | None
    problems: tuple[str, ...] = ()
    fault: str | None = None
    silent: bool = False

    @classmethod
    def of_fault(cls, fault: str, *, silent: bool = False) -> "Reading":
        """Return the reading of a server that gave no data at all."""
        return cls((), None, (fault,), fault=fault, silent=silent)

    def oldest_s(self, *, now_s: float) -> float | None:
        """Return the age of the oldest engine sample; `None` without any."""
        ages = [now_s - sample.sampled_s for sample in self.engines]
        return max(ages) if ages else None


class MetricSource(Protocol):
    """A source of the present metrics of pods."""

    async def read(self, targets: Targets, *, now_s: float) -> Reading:
        """Read all targets; never raises for a target that does not answer."""
        ...
