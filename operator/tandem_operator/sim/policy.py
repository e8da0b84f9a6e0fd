"""The policies for replica counts in a simulation: the live core, or one of the baselines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tandem_operator.core.decide import decide
from tandem_operator.core.decision import Decision
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import Observation
from tandem_operator.core.quota.allocate import Claim
from tandem_operator.core.quota.share import Quota
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_speed import TimedDecodePace
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning

# The core uses epoch seconds; a simulation begins here.
EPOCH_S = 1_700_000_000.0


@dataclass(frozen=True, slots=True)
class ForRouter:
    """The operator's values for a router; `pace` is `None` while nothing is known.

    `wake_s` is the time for which requests are held at a pool at zero; `None`: it is never at zero.
    """

    pace: TimedDecodePace | None
    wake_s: float | None = None


@dataclass(frozen=True, slots=True)
class PolicyAnswer:
    """The replicas to ask for, and the wait before the next tick.

    Attributes:
        for_router: the new values for the router; `None`: as before.
        listens: whether an arriving request brings the next tick forward, as at a pool at zero.
    """

    replicas: Mapping[Role, int]
    next_tick_s: float
    for_router: ForRouter | None = None
    listens: bool = False


class Policy(Protocol):
    """A policy sees only what an operator sees. One instance decides for one pool, once."""

    @property
    def name(self) -> str:
        """Return its name in reports."""

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Return the new counts; `now_s` is in epoch seconds, like all times of the observation."""


@dataclass(slots=True)
class Namespace:
    """A quota on GPUs, and the last claim of each pool under it."""

    gpus: int
    claims: dict[str, Claim] = field(default_factory=dict)

    def quota(self, pool: str) -> Quota:
        """Return the GPUs that the pool shares with the others."""
        others = tuple(claim for name, claim in self.claims.items() if name != pool)
        return Quota(pool=pool, hard_gpus=self.gpus, gpus=self.gpus, claims=others)


class Tandem:
    """The live decision core, with its memory; in a namespace, inside its share."""

    name = "tandem"

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        pool: str = "pool",
        namespace: Namespace | None = None,
        tuning: Tuning = TUNING,
    ) -> None:
        self.memory = Memory() if memory is None else memory
        self.pool = pool
        self.namespace = namespace
        self.tuning = tuning
        self.decisions: list[Decision] = []

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Run one tick of the core."""
        quota = None if self.namespace is None else self.namespace.quota(self.pool)
        decision, self.memory = decide(
            spec, observation, self.memory, now_s, quota=quota, tuning=self.tuning
        )
        if self.namespace is not None and decision.share is not None and decision.share.claim:
            self.namespace.claims[self.pool] = decision.share.claim
        self.decisions.append(decision)
        replicas = {role: plan.to for role, plan in decision.roles.items()}
        for_router = ForRouter(decision.pace, decision.wake_s)
        return PolicyAnswer(
            replicas=replicas,
            next_tick_s=decision.next_tick_s,
            for_router=for_router,
            listens=decision.rest.asleep,
        )


class Static:
    """A fleet that never changes."""

    def __init__(self, replicas: Mapping[Role, int]) -> None:
        self.replicas = dict(replicas)

    @property
    def name(self) -> str:
        """Return the fleet, such as `static 5P3D`."""
        return f"static {self.replicas[Role.PREFILL]}P{self.replicas[Role.DECODE]}D"

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Return the same counts always."""
        del spec, observation, now_s
        return PolicyAnswer(replicas=self.replicas, next_tick_s=60.0)
