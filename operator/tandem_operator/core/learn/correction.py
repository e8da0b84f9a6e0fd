"""Correct the models by measurements: a bounded factor per role, and the price of lateness.

A factor moves only by violations blamed on its role, and only as far as the model did not expect
them. Violations that a starting fleet explains are no model error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, exp, log

from tandem_operator.core.observation import RouterReport
from tandem_operator.core.observe.arrivals import Outcomes, outcomes
from tandem_operator.core.role import Role
from tandem_operator.core.tuning.tuning import TUNING, Tuning

# The role whose replicas can prevent a violation. No role can prevent a slow transfer or an error.
BLAMED: Mapping[str, Role] = {
    "router_queue": Role.PREFILL,
    "engine_queue": Role.PREFILL,
    "prefill": Role.PREFILL,
    "decode_admission": Role.DECODE,
    "decode_step": Role.DECODE,
}


@dataclass(frozen=True, slots=True)
class SeenReady:
    """A count of Ready replicas, the time since which it holds, and the count before it."""

    ready: int
    since_s: float
    before: int = 0


@dataclass(frozen=True, slots=True)
class Correction:
    """The correction of the models by measurements.

    Attributes:
        slowdown: by role, measured time of work over the modelled time.
        expected_late: by role, the late share that the model expected for the last tick.
        price: factor on the price of a late request.
    """

    slowdown: Mapping[Role, float] = field(default_factory=dict)
    expected_late: Mapping[Role, float] = field(default_factory=dict)
    ready: Mapping[Role, SeenReady] = field(default_factory=dict)
    price: float = TUNING.learn.first_price_ratio

    def of(self, role: Role) -> float:
        """Return the role's slowdown, 1 before any measurement."""
        return self.slowdown.get(role, 1.0)

    def settled(self, role: Role, now_s: float, *, tuning: Tuning = TUNING) -> bool:
        """Return whether the Ready fleet is old enough to be judged by recent violations."""
        seen = self.ready.get(role)
        return seen is not None and now_s - seen.since_s >= tuning.learn.settled_s

    def lost_caches(self, now_s: float, *, tuning: Tuning = TUNING) -> bool:
        """Return whether a prefill pod left so recently that its prompts have no new cache yet."""
        seen = self.ready.get(Role.PREFILL)
        return (
            seen is not None
            and 0 < seen.ready < seen.before
            and now_s - seen.since_s < tuning.observe.caches_move_s
        )


def violated_share(outcomes: Outcomes, role: Role, *, min_finished: int) -> float | None:
    """Return the share of ended requests with a violation by `role`; `None` if too few ended."""
    if outcomes.finished < min_finished:
        return None
    return blamed(outcomes, role) / outcomes.finished


def blamed(outcomes: Outcomes, role: Role) -> int:
    """Return the violations that more of `role` would have prevented."""
    return sum(count for cause, count in outcomes.blame.items() if BLAMED.get(cause) is role)


def see_ready(correction: Correction, ready: Mapping[Role, int], now_s: float) -> Correction:
    """Record a change of a role's Ready count."""
    seen = dict(correction.ready)
    for role, count in ready.items():
        old = seen.get(role)
        if old is None or old.ready != count or old.since_s > now_s:
            before = 0 if old is None else old.ready
            seen[role] = SeenReady(ready=count, since_s=now_s, before=before)
    return replace(correction, ready=seen)


def correct(
    correction: Correction,
    *,
    minute: Outcomes,
    longer: Outcomes,
    attainment: float,
    step_s: float,
    now_s: float,
    tuning: Tuning = TUNING,
) -> Correction:
    """Return the correction after `step_s` more seconds, by the last minute and a longer window."""
    learning, allowed = tuning.learn, max(1e-3, 1.0 - attainment)
    slowdown = {}
    # A request that is late because of one role cannot also be late because of the other.
    least = learning.min_finished_requests
    shares = {role: violated_share(minute, role, min_finished=least) for role in Role}
    late = sum(share or 0.0 for share in shares.values())
    for role, share in shares.items():
        factor = correction.of(role)
        factor *= exp(-log(factor) * min(1.0, step_s / learning.slowdown_rest_s))
        if share is not None and correction.settled(role, now_s, tuning=tuning):
            expected = correction.expected_late.get(role, 0.0)
            surprise = (max(share, min(late, expected)) - expected) / allowed
            factor *= exp(learning.slowdown_rate_per_s * step_s * min(2.0, max(-1.0, surprise)))
        slowdown[role] = min(
            learning.most_slowdown_ratio, max(learning.least_slowdown_ratio, factor)
        )
    price = correction.price
    # While a fleet is changing, lateness is the price of starting pods, not of too few of them.
    settled = all(correction.settled(role, now_s, tuning=tuning) for role in Role)
    awake = longer.attainment_awake
    if settled and longer.finished >= least and awake is not None:
        excess = (1.0 - awake) / allowed - 1.0
        price *= exp(learning.price_rate_per_s * step_s * min(2.0, max(-1.0, excess)))
    price = min(learning.most_price_ratio, max(learning.least_price_ratio, price))
    return replace(correction, slowdown=slowdown, price=price)


def burning(
    minute: Outcomes,
    longer: Outcomes,
    role: Role,
    attainment: float,
    *,
    tuning: Tuning = TUNING,
) -> bool:
    """Return whether violations by `role` spend the error budget far too fast, in both windows."""
    allowed = max(1e-3, 1.0 - attainment)
    learning = tuning.learn
    shares = [
        violated_share(each, role, min_finished=learning.min_finished_requests)
        for each in (minute, longer)
    ]
    return blamed(minute, role) >= learning.min_blamed_requests and all(
        share is not None and share > learning.burn_fast_ratio * allowed for share in shares
    )


def urgent_floors(
    ready: Mapping[Role, int],
    settled: frozenset[Role],
    routers: Sequence[RouterReport],
    *,
    attainment: float,
    tuning: Tuning = TUNING,
) -> dict[Role, int]:
    """Return counts for roles whose violations burn the error budget: up to twice the Ready ones.

    Only a fleet that has not changed for long enough is judged. Requests that waited for more than
    a minute beyond their bound were counted when they became late. So their end says nothing about
    the present fleet.
    """
    learning = tuning.learn
    minute, longer = (
        outcomes(routers, window_s=window_s, echoes=False)
        for window_s in (learning.recent_ended_s, learning.longer_ended_s)
    )
    floors = {}
    for role in settled:
        if ready[role] and burning(minute, longer, role, attainment, tuning=tuning):
            least = learning.min_finished_requests
            share = violated_share(minute, role, min_finished=least) or 0.0
            floors[role] = ready[role] + max(1, ceil(ready[role] * share))
    return dict(sorted(floors.items()))
