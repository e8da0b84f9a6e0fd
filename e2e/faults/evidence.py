"""The evidence of a played scenario: plain values, whatever it was played on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random

from tandem_operator.core.role import Role


class Fate(StrEnum):
    """The fate of a request."""

    FINISHED = "finished"
    REFUSED = "refused"
    LOST = "lost"
    HUNG = "hung"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as its client saw it. Times are seconds of whatever clock the play had.

    Attributes:
        began: whether a token of the answer had come; `None` where the client cannot know.
        wrong: how the answer differs from the undisturbed one; `None` where it does not.
    """

    name: str
    sent_s: float
    ended_s: float
    fate: Fate
    began: bool | None = None
    why: str | None = None
    wrong: str | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """A pool at one moment.

    Attributes:
        asked: the wanted replicas of each role's Deployment.
        gpus: held by pods that have a node, those on their way out included.
        blind: whether the operator says that it lacks metrics.
        whole: whether every wanted pod is Ready, and no other is there.
    """

    at_s: float
    asked: Mapping[Role, int]
    gpus: int
    blind: bool
    whole: bool


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence of the pool's status or of an Event on it, and when it was first seen."""

    at_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence that the invariants are checked against.

    Attributes:
        fault_s: when the fault began.
        dealt_s: when it was done; what was killed ended between the two.
        undone_s: when it was taken back; `fault_s` where there was nothing to take back.
        budget: the most GPUs that the pool may hold; `None` where it has no such bound.
        broken: promises of the scenario's own that were not kept, in words.
    """

    requests: Sequence[Request]
    moments: Sequence[Moment]
    said: Sequence[Said]
    fault_s: float
    dealt_s: float
    undone_s: float
    budget: int | None = None
    broken: Sequence[str] = ()

    @property
    def recovered_s(self) -> float | None:
        """Return the time from the fault until the pool stayed whole and answered every request."""
        if not self.moments or not self.moments[-1].whole:
            return None
        spoiled = [r.sent_s for r in self.requests if r.fate not in (Fate.FINISHED, Fate.LEFT)]
        torn = [m.at_s for m in self.moments if not m.whole]
        last_s = max([s for s in (*spoiled, *torn) if s >= self.fault_s], default=self.fault_s)
        return last_s - self.fault_s


@dataclass(frozen=True, slots=True)
class Stage:
    """The tools of a play: a place for its logs, randomness of its own, and a way to report.

    Attributes:
        whole: whether the long form is wanted; the short one sends less.
    """

    folder: Path
    seed: int
    tell: Callable[[str], None]
    whole: bool = True

    def random(self, name: str) -> Random:
        """Return the same draws for the same seed and name."""
        return Random(f"{self.seed}/{name}")


Play = Callable[[Stage], Evidence]
