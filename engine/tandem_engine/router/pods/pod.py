"""One engine pod as this router sees it, and what the router has outstanding there."""

from dataclasses import dataclass
from enum import StrEnum

from tandem_engine.router.pods.health import PodHealth
from tandem_engine.router.pods.kv_lease import PeerOffset
from tandem_routing.outstanding import Load, Outstanding


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


class Pod(Outstanding):
    """One engine pod and what this router has outstanding there.

    Attributes:
        clock: the clock by which a prefill pod tells when leases end.
        names_leases: whether a prefill pod can let go of a lease by the router's name for it.
        doubted: it was silent for too long, and a probe tells whether it is frozen.
        health: what became of the work that it had.
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
        """Return whose pods it works with: prefill and decode of one revision."""
        return self.endpoint.revision

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
