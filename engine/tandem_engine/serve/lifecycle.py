"""The phases of an engine pod and what each probe may say in them."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Phase(StrEnum):
    """Where an engine is between its start and its end; phases only move forward."""

    STARTING = "starting"
    WARMING_UP = "warming up"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"
    FAILED = "failed"


_ORDER = list(Phase)


@dataclass(slots=True)
class Lifecycle:
    """The launcher's own state, changed by its one task and read by the control port.

    Attributes:
        doubt: why vLLM seems to hang; `None` where it does not.
    """

    phase: Phase = Phase.STARTING
    started_up: bool = False
    vllm_answers: bool = True
    doubt: str | None = None
    reason: str | None = None
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def live(self) -> bool:
        """Whether a restart would not help."""
        return self.phase is not Phase.FAILED and self.vllm_answers

    @property
    def ready(self) -> bool:
        """Whether routers may send requests."""
        return self.phase is Phase.READY and self.vllm_answers and self.doubt is None

    @property
    def words(self) -> str:
        """What a probe is told."""
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
        """End with a sentence; the first one counts."""
        if self.phase is not Phase.FAILED:
            self.reason = reason
            self.enter(Phase.FAILED)
