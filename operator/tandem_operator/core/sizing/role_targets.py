"""The targets for the forecast: the choice, and two more that show how sure it is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tandem_operator.core.forecast.distribution import Forecast
from tandem_operator.core.observe.role_pods import RolePods
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.demand import Situation
from tandem_operator.core.sizing.replica_counts import Choice, alone, choose, gpus_of
from tandem_operator.core.sizing.router_credit import lent
from tandem_operator.core.sizing.scale_down_margin import headroom
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class Bursts:
    """The bursts for which a number of replicas would not have been enough.

    Attributes:
        rate_rps: their usual rate.
        times: their number.
        span_s: the length of their history.
        late_share: share of their requests that would have been late.
        tokens: the usual length of their prompts or answers, if it clearly differs from the present
            one.
    """

    rate_rps: float
    times: int
    span_s: float
    late_share: float
    tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Three choices.

    Attributes:
        choice: the counts to grow to.
        keep: the counts to keep even with a little more load; its targets are those of `choice`
            or more, and may be more together than a budget has.
        sure: the counts to grow to even with a little less load; its targets are those of `choice`
            or less.
        room: the share of load that is the little more.
        held_for: by role, the bursts for which it holds more than the forecast needs.
    """

    choice: Choice
    keep: Choice
    sure: Choice
    room: float = 0.0
    held_for: Mapping[Role, Bursts] = field(default_factory=dict)

    def gpus(self, spec: PoolSpec) -> int:
        """Return the GPUs of the largest choice."""
        return max(gpus_of(spec, each.target) for each in (self.choice, self.keep))

    def each(self, change: Callable[[Choice], Choice]) -> "Plan":
        """Return the plan with the same change of every choice."""
        return replace(
            self, choice=change(self.choice), keep=change(self.keep), sure=change(self.sure)
        )


def plan_for(
    spec: PoolSpec,
    *,
    situation: Situation | None,
    expected: Forecast | None,
    fleets: Mapping[Role, RolePods],
    late_price: float,
    idle: bool,
    floors: Mapping[Role, int],
    known_s: float,
    tuning: Tuning = TUNING,
) -> Plan | None:
    """Return the plan, or `None` while too little is known. A pool at rest needs the least."""
    if idle:
        least = {
            role: min(
                max(1, spec.roles[role].min_replicas, floors.get(role, 1)),
                max(1, spec.roles[role].max_replicas),
            )
            for role in Role
        }
        rest = Choice(wanted=least, target=least)
        return Plan(choice=rest, keep=rest, sure=rest)
    if situation is None or expected is None:
        return None
    asked = {role: fleets[role].asked or 0 for role in Role}
    fixed = {role: count for role, count in asked.items() if not spec.roles[role].managed}
    price = late_price / max(1e-3, 1.0 - spec.slo.attainment)
    demands = situation.demands
    if spec.insurance.overflow:
        decode_replicas = alone(
            spec,
            Role.DECODE,
            expected,
            demands,
            fixed=fixed,
            late_price=price,
            floors=floors,
            tuning=tuning,
        )
        demands = lent(demands, decode_replicas, tuning=tuning)

    def at(growth: float, floors: Mapping[Role, int]) -> Choice:
        return choose(
            spec,
            expected,
            demands,
            fixed=fixed,
            late_price=price,
            growth=growth,
            floors=floors,
            tuning=tuning,
        )

    choice, room = at(1.0, floors), 0.0
    sure = keep = choice
    if any(choice.target[role] > asked[role] for role in Role):
        sure = _within(min, choice, at(1.0 - tuning.sizing.hardly_needed_share, floors))
    if any(choice.target[role] < asked[role] for role in Role):
        room = headroom(
            rate_rps=expected.peak.mean_rps,
            dispersion=situation.sample.dispersion,
            known_s=known_s,
            tuning=tuning,
        )
        keep = _within(max, choice, at(1.0 + room, choice.wanted))
    return Plan(choice=choice, keep=keep, sure=sure, room=room)


def _within(bound: Callable[[int, int], int], choice: Choice, other: Choice) -> Choice:
    """Return the other choice without targets beyond the choice's: a budget trades the roles."""
    return replace(
        other, target={role: bound(n, choice.target[role]) for role, n in other.target.items()}
    )
