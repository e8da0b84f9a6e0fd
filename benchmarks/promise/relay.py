"""A policy that decides until a moment, and another from then on."""

from dataclasses import dataclass

from tandem_operator.core.observation import Observation
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.policy import Policy, PolicyAnswer


@dataclass(slots=True)
class Relay:
    """A relay of policies: the first before `at_s` of the observation's clock, then the second."""

    first: Policy
    second: Policy
    at_s: float

    @property
    def name(self) -> str:
        """Return the names of both policies."""
        return f"{self.first.name}, then {self.second.name}"

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Return the answer of the policy of this moment."""
        policy = self.first if now_s < self.at_s else self.second
        return policy.tick(spec, observation, now_s)
