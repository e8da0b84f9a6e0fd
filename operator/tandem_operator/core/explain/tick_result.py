"""All results of one tick, for the code that puts them into words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor, log10

from tandem_operator.core.forecast.distribution import Forecast
from tandem_operator.core.guard.allowed import Allowed
from tandem_operator.core.learn.correction import Correction
from tandem_operator.core.objective.error_budget import BudgetLeft
from tandem_operator.core.objective.rest import Pauses, Rest
from tandem_operator.core.observation import ClassWindow, Latency, TenantWindow
from tandem_operator.core.observe.arrivals import Outcomes
from tandem_operator.core.observe.freshness import Freshness
from tandem_operator.core.observe.role_pods import RolePods, Starts
from tandem_operator.core.quota.share import Share
from tandem_operator.core.role import Role
from tandem_operator.core.schedules import Called
from tandem_operator.core.sizing.decode_speed import TimedDecodePace
from tandem_operator.core.sizing.demand import Situation
from tandem_operator.core.sizing.replica_counts import Choice
from tandem_operator.core.sizing.role_targets import Plan
from tandem_operator.core.spec import PoolSpec


@dataclass(frozen=True, slots=True)
class View:
    """All results of one tick."""

    spec: PoolSpec
    now_s: float
    next_tick_s: float
    fresh: Freshness
    fleets: Mapping[Role, RolePods]
    starts: Starts
    allowed: Mapping[Role, Allowed]
    plan: Plan | None
    forecast: Forecast | None
    situation: Situation | None
    correction: Correction
    minute: Outcomes
    recent: Outcomes
    latency: Latency | None
    rate_rps: float | None
    overhead_s: float | None
    idle: bool
    share: Share | None = None
    pace: TimedDecodePace | None = None
    budget: BudgetLeft = field(default_factory=BudgetLeft)
    rest: Rest = field(default_factory=Rest)
    pauses: Pauses | None = None
    called: Called = field(default_factory=Called)
    lead_s: float = 0.0
    """Time from a decision until both roles serve."""
    classes: tuple[ClassWindow, ...] = ()
    tenants: tuple[TenantWindow, ...] = ()
    kept_on_nodes: tuple[Role, ...] = ()
    """Roles whose only pod must stay on its node: the budget has no room for another."""

    @property
    def choice(self) -> Choice | None:
        """Return the chosen counts, if they are known."""
        return None if self.plan is None else self.plan.choice

    @property
    def bound_by_quota(self) -> bool:
        """Return whether the budget in force is the pool's share of its namespace's quota."""
        return self.share is not None and self.share.binds


def rounded(value: float, digits: int = 3) -> float:
    """Return `value` with `digits` significant digits, for people."""
    if value == 0.0:
        return 0.0
    return round(value, digits - 1 - floor(log10(abs(value))))
