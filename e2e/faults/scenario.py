"""A fault as a value: what is done to a pool, how it is undone, and what it may cost."""

from dataclasses import dataclass
from enum import StrEnum

from e2e.faults.evidence import Play


class Family(StrEnum):
    """The part of the system that the fault strikes."""

    METRICS = "metrics"
    CAPACITY = "capacity"
    API = "API"
    ENGINES = "engines"
    NETWORK = "network and KV"
    CLIENTS = "clients and routers"


class Where(StrEnum):
    """The place where a scenario is played."""

    KIND = "kind"
    SIMULATOR = "simulator"
    API = "api"


class Loss(StrEnum):
    """The requests that a fault may cost; every other one finishes or is honestly refused."""

    NOTHING = "nothing"
    BEGUN = "answers that had begun on an engine that was lost"
    HELD = "what a killed router held"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One line of the fault matrix.

    Attributes:
        name: its name on the command line.
        what: the fault, in one sentence.
        undone: the way back, or that the cluster mends it by itself.
        play: plays it once, with a seed, and returns the evidence.
        may_lose: the requests that it may cost.
        names: a pattern that the pool's status has to show within 30 s of the fault; `None` where
            nothing is wrong with the pool, or where a user did it.
        recovers_s: the time within which the pool has to be whole again, from the fault on.
        quick: whether it is part of the short form.
    """

    name: str
    family: Family
    where: Where
    what: str
    undone: str
    play: Play
    may_lose: Loss = Loss.NOTHING
    names: str | None = None
    recovers_s: float = 240.0
    quick: bool = False
