"""Schedules for policies that know nothing of them, as KEDA's cron scaler would add them.

A schedule raises the minimums from its start to its end. Only Tandem asks for pods before a start.
"""

from dataclasses import replace

from tandem_operator.core.observation import Observation
from tandem_operator.core.schedules import called
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.policy import Policy, PolicyAnswer


class Scheduled:
    """A policy that scales between minimums raised by the schedules in force.

    A start does not wait for the next tick of the policy, and does not bring it forward.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._answer: PolicyAnswer | None = None
        self._due_s = 0.0

    @property
    def name(self) -> str:
        """Return the name of the policy."""
        return self._policy.name

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Return the policy's answer within the raised minimums."""
        hours = called(spec, asked=observation.replicas, lead_s=0.0, early_s=None, now_s=now_s)
        raised = hours.raised(spec)
        if self._answer is None or now_s >= self._due_s:
            self._answer = self._policy.tick(raised, observation, now_s)
            self._due_s = now_s + self._answer.next_tick_s
        replicas = {
            role: max(count, raised.roles[role].min_replicas)
            for role, count in self._answer.replicas.items()
        }
        starts = (each.start_s for each in spec.periods if each.start_s > now_s)
        next_tick_s = min((self._due_s, *starts)) - now_s
        return replace(self._answer, replicas=replicas, next_tick_s=next_tick_s)
