"""The phases of an engine pod, and the answers of its probes in them."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Phase(StrEnum):
    """The phase of an engine between its start and its end; phases only move forward."""

    STARTING = "starting"
    WARMING_UP = "warming up"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"
    FAILED = "failed"


_ORDER = list(Phase)


@dataclass(slots=True)
class Lifecycle:
    """The launcher's own state; its one task changes it, and the control port reads it.

    Attributes:
        doubt: why vLLM seems to hang; `None` if it does not.
    """

    phase: Phase = Phase.STARTING
    started_up: bool = False
    vllm_answers: bool = True
    doubt: str | None = None
    reason: str | None = None
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def live(self) -> bool:
        """Return whether the engine needs no restart."""
        return self.phase is not Phase.FAILED and self.vllm_answers

    @property
    def ready(self) -> bool:
        """Return whether routers may send requests."""
        return self.phase is Phase.READY and self.vllm_answers and self.doubt is None

    @property
    def words(self) -> str:
        """Return the text of a probe's answer."""
        return self.reason or self.doubt or self.phase.value

    def enter(self, phase: Phase) -> None:
        """Move forward; a step back is ignored, so a late warm-up never undoes a drain."""
        if _ORDER.index(phase) > _ORDER.index(self.phase):
            self.phase = phase
            self.started_up = self.started_up or phase is Phase.READY

    def leave(self) -> None:
        """Leave readiness for good."""
        self.enter(Phase.DRAINING)

    def fail(self, reason: str) -> None:
        """End with a sentence; only the first one counts."""
        if self.phase is not Phase.FAILED:
            self.reason = reason
            self.enter(Phase.FAILED)
