"""A policy that decides until a moment, and another from then on."""

from dataclasses import dataclass

from tandem_operator.core.observation import Observation
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.policy import Policy, PolicyAnswer


@dataclass(slots=True)
class Relay:
    """The first policy before `at_s` of the observation's clock, the second from then on."""

    first: Policy
    second: Policy
    at_s: float

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.first.name}, then {self.second.name}"

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """What the policy of this moment says."""
        policy = self.first if now_s < self.at_s else self.second
        return policy.tick(spec, observation, now_s)
