"""A fleet that only grows: it knows the past, forgets nothing and guesses nothing.

Where it misses the target, a policy must guess bursts that are higher than all before.
"""

from dataclasses import dataclass, field

from tandem_operator.core.observation import Observation
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.policy import Policy, PolicyAnswer


@dataclass(slots=True)
class Ratchet:
    """The policy of the largest fleet by role that another policy ever wanted."""

    grows: Policy
    _most: dict[Role, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return its name, with that of the other policy."""
        return f"ratchet of {self.grows.name}"

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Return the largest fleet that the other policy wants, or wanted before."""
        answer = self.grows.tick(spec, observation, now_s)
        for role, count in answer.replicas.items():
            self._most[role] = max(count, self._most.get(role, 0))
        return PolicyAnswer(replicas=dict(self._most), next_tick_s=answer.next_tick_s)
