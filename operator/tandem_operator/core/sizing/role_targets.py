"""What the forecast asks for: the choice, and the two that say how sure it is."""

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
    """The times at which a number of replicas would not have been enough.

    Attributes:
        rate_rps: their usual rate.
        times: how many there were.
        span_s: the length of the history they are from.
        late_share: share of their requests that would have been late.
        tokens: what of them the role works on, where that clearly differs from today: the usual
            length of their prompts, or of their answers.
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
        choice: what to grow to.
        keep: what must be kept even with a little more load; its targets are those of `choice` or
            more, and may be more together than a budget has.
        sure: what would be grown to with a little less load too; its targets are those of `choice`
            or less.
        room: the share of load that is the little more.
        held_for: by role, the bursts for which more is held than the forecast wants.
    """

    choice: Choice
    keep: Choice
    sure: Choice
    room: float = 0.0
    held_for: Mapping[Role, Bursts] = field(default_factory=dict)

    def gpus(self, spec: PoolSpec) -> int:
        """GPUs of the largest."""
        return max(gpus_of(spec, each.target) for each in (self.choice, self.keep))

    def each(self, change: Callable[[Choice], Choice]) -> "Plan":
        """The plan with every choice changed in one way."""
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
    """The plan, or `None` while too little is known. A pool at confirmed rest needs the least."""
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
    """The other choice with no target beyond the choice's: a budget trades one role for another."""
    return replace(
        other, target={role: bound(n, choice.target[role]) for role, n in other.target.items()}
    )
