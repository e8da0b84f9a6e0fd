"""All facts for the status of one pool at one moment, gathered once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem_operator.api import Cost, PoolStatus
from tandem_operator.api.v1alpha1.scaling import MetricsSource
from tandem_operator.core.decision import Decision
from tandem_operator.core.guard.router_count import RouterCount
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode, PoolSpec
from tandem_operator.workloads.effects import WriteOutcome
from tandem_operator.workloads.observed.live_objects import LiveObjects
from tandem_operator.workloads.observed.turnover import staying
from tandem_operator.workloads.pool_names import ROUTER, PoolName
from tandem_operator.workloads.status.route_condition import RouteFacts
from tandem_operator.workloads.world import Rival

LONGEST_WAKE_RATIO = 2.0
"""A wake that takes more than so many times its usual time has met some trouble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """A pool with a valid spec, its observed state, its decision and the result of its writes.

    Attributes:
        rivals: other managers of replicas that Tandem manages, by component.
        waiting: autoscalers by the Managed role whose PoolRole they would scale.
        followed: External roles whose PoolRole another client has scaled.
        templates: hash of each component's pod template at this generation.
        overridden: the user's pod template fields that Tandem's own fields replaced, in words.
        idle: sentences on fields of the user's pod templates that have no effect on any pod.
        least_routers: `router.minReplicas`.
        route: of the HTTPRoute that it asks for; `None`: it asks for none.
        schedules: names of its schedules.
    """

    name: PoolName
    generation: int
    policy: PoolSpec
    rivals: Mapping[str, Rival]
    templates: Mapping[str, str]
    overridden: tuple[str, ...]
    seen: LiveObjects
    decision: Decision
    routers: RouterCount
    least_routers: int
    previous: PoolStatus
    outcome: WriteOutcome
    metrics_source: MetricsSource
    prometheus_passed_over: bool
    prometheus_fault: str | None
    cost: Cost | None
    now_s: float
    waiting: Mapping[str, str] = field(default_factory=dict)
    followed: frozenset[str] = frozenset()
    idle: str = ""
    route: RouteFacts | None = None
    schedules: tuple[str, ...] = ()

    def updated(self, role: Role) -> int:
        """Return the pods of this generation that were not told to end."""
        template = self.templates[role]
        return sum(pod.template == template for pod in staying(self.seen, role))

    def least(self, component: str) -> int:
        """Return the least replicas in the spec; another owner of the count may ask for fewer."""
        if component == ROUTER:
            least, ours = self.least_routers, self.policy.mode is not Mode.PAUSED
        else:
            if self.asleep:
                return 0
            role = self.policy.roles[Role(component)]
            least, ours = role.min_replicas, role.managed and self.policy.mode is Mode.AUTO
        if not ours or (component in self.rivals and self.rivals[component].left_alone):
            least = min(least, self.seen.replicas.get(component, least))
        # Without a pod of each component nothing is served.
        return max(1, least)

    def gpus_held(self) -> int:
        """Return the GPUs of all engine pods with a node, 1 unit each if replicas hold none."""
        return self.seen.gpus_held(self.policy)

    @property
    def asleep(self) -> bool:
        """Return whether both roles are at zero for lack of requests, and the next wakes them."""
        return self.policy.mode is Mode.AUTO and self.decision.rest.asleep

    @property
    def waking(self) -> bool:
        """Whether a wake is under way, and has not taken longer than it may."""
        wake = self.decision.rest.wake
        return wake is not None and not wake.over and self._lately(wake.decided_s)

    @property
    def called(self) -> bool:
        """Whether a schedule wakes the pool, and it has not taken longer than it may."""
        called_s = self.decision.rest.called_s
        return called_s is not None and self._lately(called_s)

    def _lately(self, since_s: float) -> bool:
        wake_s = self.decision.wake_s
        if self.asleep or wake_s is None:
            return False
        return 0.0 <= self.now_s - since_s < LONGEST_WAKE_RATIO * wake_s

    @property
    def left_at_zero(self) -> bool:
        """Return whether both roles are at zero, and Tandem may not wake them."""
        counts = [self.seen.replicas.get(role) for role in Role]
        return counts == [0, 0] and self.policy.mode is not Mode.AUTO

    @property
    def in_force(self) -> bool:
        """Return whether the API server accepted this generation's children."""
        return self.outcome.refused is None and self.outcome.blocked is None
