"""All that a status may say of one pool at one moment, gathered once."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """A pool whose spec makes sense, what was seen of it, what was decided and what came of it.

    Attributes:
        rivals: who else sets replicas that Tandem manages, by component.
        waiting: autoscalers by the Managed role whose PoolRole they would scale.
        followed: External roles whose PoolRole another client has scaled.
        templates: hash of each component's pod template at this generation.
        overridden: the user's pod template fields that Tandem's own took over, in words.
        idle: sentences on what the user's pod templates say that is in no pod.
        least_routers: `router.minReplicas`.
        route: of the HTTPRoute that it asks for; `None`: it asks for none.
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

    def updated(self, role: Role) -> int:
        """Pods of this generation that nobody has told to end."""
        template = self.templates[role]
        return sum(pod.template == template for pod in staying(self.seen, role))

    def least(self, component: str) -> int:
        """The fewest replicas that are asked for; another owner of the count may ask for fewer."""
        if component == ROUTER:
            least, ours = self.least_routers, self.policy.mode is not Mode.PAUSED
        else:
            role = self.policy.roles[Role(component)]
            least, ours = role.min_replicas, role.managed and self.policy.mode is Mode.AUTO
        if not ours or (component in self.rivals and self.rivals[component].left_alone):
            least = min(least, self.seen.replicas.get(component, least))
        # Without a pod of each component nothing is served.
        return max(1, least)

    def gpus_held(self) -> int:
        """GPUs of all engine pods that have a node, 1 unit each where replicas hold none."""
        return self.seen.gpus_held(self.policy)

    @property
    def in_force(self) -> bool:
        """Whether this generation's children were accepted by the API server."""
        return self.outcome.refused is None and self.outcome.blocked is None
