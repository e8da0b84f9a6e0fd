"""Correct the models with what was measured: a bounded factor per role, and the price of lateness.

A factor moves only by violations blamed on its role, and only as far as the model did not expect
them: those that a fleet still starting explains are no model error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, exp, log

from tandem_operator.core.observation import RouterReport
from tandem_operator.core.observe.arrivals import Outcomes, outcomes
from tandem_operator.core.role import Role

# Whose replicas can mend a violation. A slow transfer or an error is mended by neither's.
BLAMED: Mapping[str, Role] = {
    "router_queue": Role.PREFILL,
    "engine_queue": Role.PREFILL,
    "prefill": Role.PREFILL,
    "decode_admission": Role.DECODE,
    "decode_step": Role.DECODE,
}
LEAST_FACTOR, MOST_FACTOR = 0.8, 1.6
FACTOR_RATE_PER_S = 0.003
FACTOR_REST_S = 900.0
PRICE_RATE_PER_S = 0.001
# Careful at first: measured attainment soon says whether that was too much.
FIRST_PRICE, LEAST_PRICE, MOST_PRICE = 1.5, 0.5, 4.0
MIN_FINISHED = 20
# Of what ended: the last minute, and long enough for chance to even out.
MINUTE_S, LONGER_S = 60, 300
SETTLED_S = 75.0
BURN_FAST = 6.0
MIN_BLAMED = 5


@dataclass(frozen=True, slots=True)
class SeenReady:
    """A count of ready replicas, and since when it is that."""

    ready: int
    since_s: float


@dataclass(frozen=True, slots=True)
class Correction:
    """What measurement says about the models.

    Attributes:
        slowdown: by role, how much longer work takes than the model says.
        expected_late: by role, the late share that the model expected for the last tick.
        price: factor on the price of a late request.
    """

    slowdown: Mapping[Role, float] = field(default_factory=dict)
    expected_late: Mapping[Role, float] = field(default_factory=dict)
    ready: Mapping[Role, SeenReady] = field(default_factory=dict)
    price: float = FIRST_PRICE

    def of(self, role: Role) -> float:
        """The role's slowdown, 1 until something was measured."""
        return self.slowdown.get(role, 1.0)

    def settled(self, role: Role, now_s: float) -> bool:
        """Whether the ready fleet is old enough to be judged by the last minute's violations."""
        seen = self.ready.get(role)
        return seen is not None and now_s - seen.since_s >= SETTLED_S


def violated_share(outcomes: Outcomes, role: Role) -> float | None:
    """Share of ended requests whose violation is blamed on `role`; `None` with too few to tell."""
    if outcomes.finished < MIN_FINISHED:
        return None
    return blamed(outcomes, role) / outcomes.finished


def blamed(outcomes: Outcomes, role: Role) -> int:
    """Violations that more of `role` would have prevented."""
    return sum(count for cause, count in outcomes.blame.items() if BLAMED.get(cause) is role)


def see_ready(correction: Correction, ready: Mapping[Role, int], now_s: float) -> Correction:
    """Note when a role's ready count changes."""
    seen = dict(correction.ready)
    for role, count in ready.items():
        old = seen.get(role)
        if old is None or old.ready != count or old.since_s > now_s:
            seen[role] = SeenReady(ready=count, since_s=now_s)
    return replace(correction, ready=seen)


def correct(
    correction: Correction,
    *,
    minute: Outcomes,
    longer: Outcomes,
    attainment: float,
    step_s: float,
    now_s: float,
) -> Correction:
    """The correction after `step_s` more seconds, by the last minute's and longer outcomes."""
    allowed = max(1e-3, 1.0 - attainment)
    slowdown = {}
    # Who is late for one role's sake can no more be late for the other's.
    shares = {role: violated_share(minute, role) for role in Role}
    late = sum(share or 0.0 for share in shares.values())
    for role, share in shares.items():
        factor = correction.of(role)
        factor *= exp(-log(factor) * min(1.0, step_s / FACTOR_REST_S))
        if share is not None and correction.settled(role, now_s):
            expected = correction.expected_late.get(role, 0.0)
            surprise = (max(share, min(late, expected)) - expected) / allowed
            factor *= exp(FACTOR_RATE_PER_S * step_s * min(2.0, max(-1.0, surprise)))
        slowdown[role] = min(MOST_FACTOR, max(LEAST_FACTOR, factor))
    price = correction.price
    # While a fleet is changing, lateness is the price of starting pods, not of too few of them.
    settled = all(correction.settled(role, now_s) for role in Role)
    if settled and longer.finished >= MIN_FINISHED and longer.attainment is not None:
        excess = (1.0 - longer.attainment) / allowed - 1.0
        price *= exp(PRICE_RATE_PER_S * step_s * min(2.0, max(-1.0, excess)))
    price = min(MOST_PRICE, max(LEAST_PRICE, price))
    return replace(correction, slowdown=slowdown, price=price)


def burning(minute: Outcomes, longer: Outcomes, role: Role, attainment: float) -> bool:
    """Whether violations blamed on `role` spend the error budget far too fast, now and lately."""
    allowed = max(1e-3, 1.0 - attainment)
    shares = (violated_share(minute, role), violated_share(longer, role))
    return blamed(minute, role) >= MIN_BLAMED and all(
        share is not None and share > BURN_FAST * allowed for share in shares
    )


def urgent_floors(
    ready: Mapping[Role, int],
    settled: frozenset[Role],
    routers: Sequence[RouterReport],
    *,
    attainment: float,
) -> dict[Role, int]:
    """Counts of the roles whose violations burn the error budget: up to twice what is ready.

    Only for a fleet that has been as it is for long enough to be blamed. What waited for a minute
    beyond its bound was seen when it became late: its end says nothing about the fleet of now.
    """
    minute, longer = (outcomes(routers, window_s=s, echoes=False) for s in (MINUTE_S, LONGER_S))
    floors = {}
    for role in settled:
        if ready[role] and burning(minute, longer, role, attainment):
            share = violated_share(minute, role) or 0.0
            floors[role] = ready[role] + max(1, ceil(ready[role] * share))
    return dict(sorted(floors.items()))
