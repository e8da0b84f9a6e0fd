"""One engine pod as this router sees it, and its outstanding work."""

from dataclasses import dataclass
from enum import StrEnum

from tandem_engine.router.pods.health import PodHealth
from tandem_engine.router.pods.kv_lease import PeerOffset
from tandem_routing.outstanding import Load, Outstanding


class Role(StrEnum):
    """The role of an engine pod."""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One engine pod as discovery shows it; `restarts` counts those of its containers."""

    name: str
    role: Role
    host: str
    port: int
    revision: str = ""
    ready: bool = True
    leaving: bool = False
    restarts: int = 0


class Pod(Outstanding):
    """One engine pod and the outstanding work of this router there.

    Attributes:
        clock: the offset of the clock by which a prefill pod reports the end of leases.
        names_leases: whether a prefill pod can free a lease by the router's name for it.
        doubted: it was silent for too long, and a probe checks whether it is frozen.
        health: the results of its work.
    """

    __slots__ = ("clock", "doubted", "endpoint", "health", "names_leases")

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint.name)
        self.endpoint = endpoint
        self.doubted = False
        self.clock = PeerOffset()
        self.names_leases = False
        self.health = PodHealth()

    @property
    def url(self) -> str:
        """Return the base URL of the pod's engine."""
        host = self.endpoint.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.endpoint.port}"

    def enter(self, load: Load, now: float) -> None:
        """Count a request that goes to this pod."""
        super().enter(load, now)
        self.health.entered(now)

    @property
    def revision(self) -> str:
        """Return the revision of the pods that it works with, prefill and decode."""
        return self.endpoint.revision

    @property
    def weight(self) -> int:
        """Return its outstanding tokens, and those of requests that just failed there.

        Otherwise a pod that fails at once would look idle and get every request.
        """
        return self.tokens + self.health.lost_tokens

    @property
    def usable(self) -> bool:
        """Return whether a new request can go here."""
        return self.standing and not self.doubted and self.health.admits

    @property
    def standing(self) -> bool:
        """Return whether discovery shows this pod as one for new requests."""
        return self.endpoint.ready and not self.endpoint.leaving
