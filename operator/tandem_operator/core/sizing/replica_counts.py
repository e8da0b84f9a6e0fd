"""Choose both counts together: least GPUs plus a price for lateness; inside a budget, most goodput.

Each role gives only two numbers: the late share with n replicas at a rate, and the replicas that
this rate keeps busy. So one search serves both roles.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import ceil, inf

from tandem_operator.core.forecast.distribution import Forecast, Level
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec, RoleSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning

LateShare = Callable[[float, int], float]


@dataclass(frozen=True, slots=True)
class RoleDemand:
    """One role's side of the choice.

    Attributes:
        late_share: share of requests late for this role, by rate and replicas.
        priced_share: the part of it that replicas beyond the objective should avoid; `None`: all.
        price_weight: weight of the price of a late request for this role.
        busy: replicas that one request per second keeps busy.
        backlog: the waiting work, in replicas, spread over the look-ahead.
        reachable_share: share of requests that some number of replicas serves in time. `late_share`
            is about those alone; 1 if they are enough for the objective.
    """

    late_share: LateShare
    busy: float
    backlog: float = 0.0
    priced_share: LateShare | None = None
    price_weight: float = 1.0
    reachable_share: float = 1.0
    tuning: Tuning = field(default=TUNING, compare=False, repr=False)

    def least(self, rate_rps: float) -> int:
        """Return the replicas that serve all requests, in time or not."""
        load = rate_rps * self.busy
        if self.reachable_share >= 1.0:
            return int(load)
        return ceil(load / self.tuning.sizing.served_load_ratio)

    def tolerated_late(self, objective: float) -> float:
        """Return the late share that counts as zero, if `objective` of all requests may be late.

        If fewer than half can be in time, no count comes near the objective. More replicas would
        then make hardly any request good.
        """
        return max(objective, 1.0 - 2.0 * self.reachable_share)

    def good_share(self, rate_rps: float, replicas: int) -> float:
        """Return the share of requests that this role serves in time; 0 without a replica."""
        return 1.0 - self.late_share(rate_rps, replicas) if replicas > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Choice:
    """Replicas by role.

    Attributes:
        wanted: before any limit.
        target: inside bounds and budget.
        limits_hit: the limits that keep a role below its wanted count.
    """

    wanted: Mapping[Role, int]
    target: Mapping[Role, int]
    limits_hit: Mapping[Role, tuple[str, ...]] = field(default_factory=dict)


def choose(
    spec: PoolSpec,
    forecast: Forecast,
    demands: Mapping[Role, RoleDemand],
    *,
    fixed: Mapping[Role, int],
    late_price: float,
    growth: float = 1.0,
    floors: Mapping[Role, int] | None = None,
    tuning: Tuning = TUNING,
) -> Choice:
    """Return counts for the largest need from now to the look-ahead, with rates times `growth`.

    `fixed` holds the counts of roles that another owner sets; they stay. `floors` holds the least
    counts: for violations now, whatever the models say, or for the need of less load.
    """
    budget = spec.gpu_budget
    wanted: dict[Role, int] = {}
    for role in demands:
        wanted[role] = _wanted(
            spec,
            role,
            forecast,
            demands,
            cap_rps=_delivered_rps(spec, role, demands, wanted, fixed),
            late_price=late_price,
            growth=growth,
            least=(floors or {}).get(role, 1),
            tuning=tuning,
        )
    limits: dict[Role, tuple[str, ...]] = {}
    target: dict[Role, int] = {}
    for role, count in wanted.items():
        target[role] = _bounded(spec.roles[role], count)
        if count > target[role]:
            limits[role] = ("maxReplicas",)
    if budget is not None:
        rate_rps = forecast.peak.mean_rps * growth
        fitted = _fit_budget(
            spec, rate_rps, demands, target=target, fixed=fixed, budget=budget, tuning=tuning
        )
        for role, count in fitted.items():
            if count < target[role]:
                limits[role] = (*limits.get(role, ()), "gpuBudget")
        target = fitted
    return Choice(wanted=wanted, target=target, limits_hit=limits)


def alone(
    spec: PoolSpec,
    role: Role,
    forecast: Forecast,
    demands: Mapping[Role, RoleDemand],
    *,
    fixed: Mapping[Role, int],
    late_price: float,
    floors: Mapping[Role, int],
    tuning: Tuning = TUNING,
) -> int:
    """Return replicas of one role within its bounds, if the other role keeps up with every rate."""
    if role in fixed:
        return fixed[role]
    count = _wanted(
        spec,
        role,
        forecast,
        demands,
        cap_rps=inf,
        late_price=late_price,
        growth=1.0,
        least=floors.get(role, 1),
        tuning=tuning,
    )
    return _bounded(spec.roles[role], count)


def _wanted(
    spec: PoolSpec,
    role: Role,
    forecast: Forecast,
    demands: Mapping[Role, RoleDemand],
    *,
    cap_rps: float,
    late_price: float,
    growth: float,
    least: int,
    tuning: Tuning = TUNING,
) -> int:
    """Return replicas of one role for the largest need, if at most `cap_rps` reach it."""
    demand, most = demands[role], 2 * spec.roles[role].max_replicas + 4
    request_gpu_s = sum(demands[each].busy * spec.roles[each].gpus_per_replica for each in demands)
    count, objective = least, 1.0 - spec.slo.attainment
    tolerated = demand.tolerated_late(objective)
    price = late_price * request_gpu_s * demand.price_weight * demand.reachable_share
    # The highest level first: other levels seldom need more than it.
    for level in sorted(forecast.levels, key=_highest_rps, reverse=True):
        count = _least_cost(
            mean_rps=min(cap_rps, level.mean_rps * growth),
            samples_rps=[min(cap_rps, rate * growth) for rate in level.samples_rps],
            demand=demand,
            gpus=spec.roles[role].gpus_per_replica,
            price=price * objective / tolerated if tolerated > objective else price,
            allowed_late=0.5 * tolerated,
            least=count,
            most=most,
            tuning=tuning,
        )
    if demand.backlog <= 0.0:
        return count
    drain = ceil(forecast.peak.mean_rps * growth * demand.busy + demand.backlog - 1e-9)
    return max(count, min(drain, 2 * count, most))


def _bounded(bounds: RoleSpec, count: int) -> int:
    return min(max(count, bounds.min_replicas, 1), max(1, bounds.max_replicas))


def _delivered_rps(
    spec: PoolSpec,
    role: Role,
    demands: Mapping[Role, RoleDemand],
    wanted: Mapping[Role, int],
    fixed: Mapping[Role, int],
) -> float:
    """Return the most requests that prefill can hand to decode; no limit for prefill itself."""
    if role is Role.PREFILL or Role.PREFILL not in wanted:
        return inf
    prefill = demands[Role.PREFILL]
    count = fixed.get(
        Role.PREFILL, min(wanted[Role.PREFILL], spec.roles[Role.PREFILL].max_replicas)
    )
    return max(1, count) / prefill.busy if prefill.busy > 0.0 else inf


def _highest_rps(level: Level) -> float:
    return max(level.samples_rps)


def _least_cost(
    *,
    mean_rps: float,
    samples_rps: list[float],
    demand: RoleDemand,
    gpus: int,
    price: float,
    allowed_late: float,
    least: int,
    most: int,
    tuning: Tuning = TUNING,
) -> int:
    """Return replicas of one role at one horizon, `least` or more."""
    count = max(least, min(most, demand.least(mean_rps)))
    reachable = demand.reachable_share
    while count < most and reachable * demand.late_share(mean_rps, count) > allowed_late:
        count += 1
    best, best_cost = count, inf
    priced_share = demand.priced_share or demand.late_share
    # Late shares take most of a tick. None is computed if the replicas alone cost too much. If no
    # request is late at a high rate, none is late at a lower one.
    highest_first = sorted(samples_rps, reverse=True)
    while count <= most and gpus * count < best_cost:
        late = sum(rate * priced_share(rate, count) for rate in highest_first)
        late_cost = price * late / len(samples_rps)
        cost = gpus * count + late_cost
        if cost < best_cost:
            best, best_cost = count, cost
        past = count > best + tuning.sizing.search_past_best_replicas
        if late_cost < tuning.sizing.negligible_cost_gpus or past:
            break
        count += 1
    return best


@dataclass(frozen=True, slots=True)
class Pair:
    """Replicas of both roles, their GPUs, and the good requests per second."""

    counts: Mapping[Role, int]
    gpus: int
    goodput_rps: float


def count_pairs(
    spec: PoolSpec,
    rates_rps: Sequence[float],
    demands: Mapping[Role, RoleDemand],
    *,
    target: Mapping[Role, int],
    fixed: Mapping[Role, int],
    budget: int | None = None,
    good_share: float = 1.0,
    tuning: Tuning = TUNING,
) -> Iterator[Pair]:
    """Yield every pair up to `target` inside `budget`, smaller first, over equally likely rates.

    `good_share` is the share of requests that could be good with some number of replicas.
    """
    prefill, decode = (demands[role] for role in (Role.PREFILL, Role.DECODE))
    good_decode = cache(decode.good_share)
    for prefills in _counts(spec, Role.PREFILL, target, fixed, tuning=tuning):
        good_prefill = [prefill.good_share(rate, prefills) for rate in rates_rps]
        served = [_served(rate, prefill.busy, prefills) for rate in rates_rps]
        for decodes in _counts(spec, Role.DECODE, target, fixed, tuning=tuning):
            counts = {Role.PREFILL: prefills, Role.DECODE: decodes}
            gpus = gpus_of(spec, counts)
            if budget is not None and gpus > budget:
                break
            # Served work breaks ties between pairs that are all too small to be on time.
            goodput = sum(
                min(fed, _served(rate, decode.busy, decodes))
                * (0.01 + good_share * good * good_decode(fed, decodes))
                for rate, fed, good in zip(rates_rps, served, good_prefill, strict=True)
            )
            yield Pair(counts, gpus, goodput / len(rates_rps))


def gpus_of(spec: PoolSpec, counts: Mapping[Role, int]) -> int:
    """Return the GPUs of these replicas."""
    return sum(count * spec.roles[role].gpus_per_replica for role, count in counts.items())


def _counts(
    spec: PoolSpec,
    role: Role,
    target: Mapping[Role, int],
    fixed: Mapping[Role, int],
    *,
    tuning: Tuning = TUNING,
) -> range:
    if role in fixed:
        return range(fixed[role], fixed[role] + 1)
    low = max(1, spec.roles[role].min_replicas)
    return range(low, min(target[role], low + tuning.sizing.budget_search_replicas) + 1)


def _fit_budget(
    spec: PoolSpec,
    rate_rps: float,
    demands: Mapping[Role, RoleDemand],
    *,
    target: Mapping[Role, int],
    fixed: Mapping[Role, int],
    budget: int,
    tuning: Tuning = TUNING,
) -> dict[Role, int]:
    """Return the pair inside `budget` with the most good requests; of equals, the smaller."""
    if gpus_of(spec, {role: fixed.get(role, count) for role, count in target.items()}) <= budget:
        return dict(target)
    best: Mapping[Role, int] = {role: max(1, spec.roles[role].min_replicas) for role in target}
    best_goodput = -1.0
    for pair in count_pairs(
        spec, [rate_rps], demands, target=target, fixed=fixed, budget=budget, tuning=tuning
    ):
        if pair.goodput_rps > best_goodput + 1e-9:
            best, best_goodput = pair.counts, pair.goodput_rps
    return {role: target[role] if role in fixed else best[role] for role in target}


def _served(rate_rps: float, busy: float, replicas: int) -> float:
    return min(rate_rps, replicas / busy) if busy > 0.0 else rate_rps
