"""The usual cost of requests for a replay of the past: the mean of many looks.

The cost of one minute varies by a third, because a burst that met too small a fleet looks like slow
engines. A replay at the cost of one minute would choose another fleet every few minutes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log

from tandem_operator.core.role import Role
from tandem_operator.core.sizing.demand import Work
from tandem_operator.core.sizing.replica_counts import LateShare
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class Usual:
    """The mean request of one role over so many looks.

    Attributes:
        tokens: its tokens.
        busy: replicas that one of these requests per second keeps busy.
    """

    tokens: float
    busy: float
    looks: int

    def seen(self, tokens: float, busy: float, *, tuning: Tuning = TUNING) -> "Usual":
        """Return the mean with one more look; only the look if requests clearly changed."""
        numbers = tuning.objective
        if abs(log(tokens / self.tokens)) * numbers.rate_grid_steps > numbers.alike_steps:
            return Usual(tokens, busy, 1)
        looks = min(numbers.usual_looks, self.looks + 1)
        return Usual(
            self.tokens + (tokens - self.tokens) / looks,
            self.busy + (busy - self.busy) / looks,
            looks,
        )


def usual_of(
    before: Mapping[Role, Usual], work: Work, *, tuning: Tuning = TUNING
) -> dict[Role, Usual]:
    """Return the usual request by role, after one more look."""
    found = {}
    for role in Role:
        tokens = max(1.0, work.mean_tokens[role])
        busy = work.busy[role] / tokens
        found[role] = (
            before[role].seen(tokens, busy, tuning=tuning)
            if role in before
            else Usual(tokens, busy, 1)
        )
    return found


def as_usual(work: Work, usual: Mapping[Role, Usual]) -> Work:
    """Return the work of a usual request."""
    busy = {role: each.busy * each.tokens for role, each in usual.items()}
    times = {r: busy[r] / work.busy[r] if work.busy[r] > 0.0 else 1.0 for r in Role}
    return replace(
        work,
        busy=busy,
        late_share={r: _at(share, times[r]) for r, share in work.late_share.items()},
        mean_tokens={role: each.tokens for role, each in usual.items()},
    )


def _at(share: LateShare, times: float) -> LateShare:
    """Return late shares for requests of another cost, which act like more requests."""
    return lambda rate_rps, replicas: share(times * rate_rps, replicas)
