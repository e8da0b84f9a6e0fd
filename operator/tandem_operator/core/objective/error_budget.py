"""The error budget: how many violations the objective allows in a window, and what is left of it.

Endings are kept by the minute for six hours and by the hour for thirty days.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import floor, sqrt

from tandem_operator.core.observation import RouterReport
from tandem_operator.core.tuning.tuning import TUNING, Tuning

MINUTE_S, HOUR_S = 60, 3600
MINUTES_KEPT, HOURS_KEPT = 360, 720
MONTH_S = 30 * 24 * 3600.0
BURN_WINDOWS_S = {
    "5m": 300.0,
    "30m": 1800.0,
    "1h": 3600.0,
    "2h": 7200.0,
    "6h": 21600.0,
    "1d": 86400.0,
    "3d": 259200.0,
}
"""Pairs of them make alerts: a long window says that it matters, a short one that it goes on."""
MOST_UNSEEN = 0.5
"""Of a window, while no router tells what ended; with more, nothing is told of the window."""


class Proof(Enum):
    """What late requests say about the fleet that served them."""

    NONE = "none"
    SHORT = "short"
    AMPLE = "ample"


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """What is left of an error budget; `None` where too few requests ended, or were seen, to tell.

    Attributes:
        remaining_share: of the hour's budget; below zero where it is overspent.
        remaining_30d_share: of the budget of thirty days.
        burn_rates: by window of `BURN_WINDOWS_S`, how many times as fast as allowed it is spent.
        late_requests: by the same windows; none while no ending was counted or could be.
    """

    remaining_share: float | None = None
    remaining_30d_share: float | None = None
    burn_rates: Mapping[str, float] = field(default_factory=dict)
    late_requests: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """Requests that ended, and the good ones among them.

    Attributes:
        folded_s: up to which second endings are counted.
        minute, hour: numbers of the latest minute and hour since the epoch; their entry is last.
    """

    folded_s: int | None = None
    minute: int = 0
    finished: tuple[int, ...] = ()
    good: tuple[int, ...] = ()
    hour: int = 0
    hourly_finished: tuple[int, ...] = ()
    hourly_good: tuple[int, ...] = ()

    def fold(self, reports: Sequence[RouterReport], *, tuning: Tuning = TUNING) -> "ErrorBudget":
        """The budget with what ended since the last look."""
        until_s = min((floor(r.sampled_s) - 1 for r in reports if not r.ended), default=None)
        if until_s is None:
            return self
        if self.folded_s is None or until_s < self.folded_s - MINUTES_KEPT * MINUTE_S:
            return ErrorBudget(
                folded_s=until_s,
                minute=until_s // MINUTE_S,
                finished=(0,),
                good=(0,),
                hour=until_s // HOUR_S,
                hourly_finished=(0,),
                hourly_good=(0,),
            )
        if until_s < self.folded_s - tuning.observe.set_back_s:
            # What ended before stays as long ago as it was. What ends from now on is counted.
            minute, hour = until_s // MINUTE_S, until_s // HOUR_S
            return replace(self, folded_s=until_s, minute=minute, hour=hour)
        if until_s <= self.folded_s:
            return self
        rows = [
            (row.second, row.finished, row.good)
            for report in reports
            for row in report.finished
            if self.folded_s < row.second <= until_s
        ]
        minutes = _Column(MINUTE_S, MINUTES_KEPT).rolled(
            self.minute, (self.finished, self.good), rows, until_s=until_s
        )
        hours = _Column(HOUR_S, HOURS_KEPT).rolled(
            self.hour, (self.hourly_finished, self.hourly_good), rows, until_s=until_s
        )
        return ErrorBudget(
            folded_s=until_s,
            minute=until_s // MINUTE_S,
            finished=minutes[0],
            good=minutes[1],
            hour=until_s // HOUR_S,
            hourly_finished=hours[0],
            hourly_good=hours[1],
        )

    def late_share(self, window_s: float, *, min_finished: int) -> float | None:
        """Share that was not good in the last `window_s`; `None` where fewer ended than that."""
        finished, good = self._ended(window_s)
        return 1.0 - good / finished if finished >= min_finished else None

    def _ended(self, window_s: float) -> tuple[int, int]:
        """Requests that ended in the last `window_s`, and the good ones among them."""
        if window_s <= MINUTES_KEPT * MINUTE_S:
            count = max(1, round(window_s / MINUTE_S))
            return sum(self.finished[-count:]), sum(self.good[-count:])
        count = max(1, round(window_s / HOUR_S))
        return sum(self.hourly_finished[-count:]), sum(self.hourly_good[-count:])

    def burn_rate(
        self, window_s: float, attainment: float, *, tuning: Tuning = TUNING
    ) -> float | None:
        """How many times as fast as allowed the budget is spent."""
        late = self.late_share(window_s, min_finished=tuning.objective.min_finished_requests)
        return None if late is None else late / max(1e-4, 1.0 - attainment)

    def remaining(
        self, attainment: float, window_s: float | None = None, *, tuning: Tuning = TUNING
    ) -> float | None:
        """Share of the window's budget that is left; below zero where it is overspent.

        Without `window_s` it is the window that the budget is kept in.
        """
        if window_s is None:
            window_s = tuning.objective.budget_window_s
        burnt = self.burn_rate(window_s, attainment, tuning=tuning)
        return None if burnt is None else 1.0 - burnt

    def left(
        self, attainment: float, *, now_s: float | None = None, tuning: Tuning = TUNING
    ) -> BudgetLeft:
        """What is left of it, for people and for alerts; without `now_s`, as of the last look.

        While no router tells, what was counted last says less and less of the windows.
        """
        unseen_s = 0.0
        if now_s is not None and self.folded_s is not None:
            unseen_s = now_s - self.folded_s
        seen = {
            name: window_s
            for name, window_s in BURN_WINDOWS_S.items()
            if unseen_s <= MOST_UNSEEN * window_s
        }
        rates = {
            name: self.burn_rate(window_s, attainment, tuning=tuning)
            for name, window_s in seen.items()
        }
        late = (
            {}
            if self.folded_s is None
            else {
                name: finished - good
                for name, window_s in seen.items()
                for finished, good in [self._ended(window_s)]
            }
        )

        def remaining(window_s: float) -> float | None:
            if unseen_s > MOST_UNSEEN * window_s:
                return None
            return self.remaining(attainment, window_s, tuning=tuning)

        return BudgetLeft(
            remaining_share=remaining(tuning.objective.budget_window_s),
            remaining_30d_share=remaining(MONTH_S),
            burn_rates={name: rate for name, rate in rates.items() if rate is not None},
            late_requests=late,
        )

    def allowed_late(
        self, attainment: float, *, since_s: int | None = None, tuning: Tuning = TUNING
    ) -> float:
        """The late share to plan for, so that the window's budget is kept.

        What was late before `since_s` has been answered: what has held since then is judged.
        """
        numbers = tuning.objective
        window_s = numbers.budget_window_s
        if since_s is not None and self.folded_s is not None:
            window_s = min(window_s, max(MINUTE_S, self.folded_s - since_s))
        finished, good = self._ended(window_s)
        # A few late requests of a young window are chance.
        burnt = (finished - good) / ((1.0 - attainment) * finished + numbers.chance_requests)
        share = max(numbers.least_allowed_share, numbers.rest_share + 1.0 - burnt)
        return (1.0 - attainment) * min(1.0, share)

    def proof(self, attainment: float, *, since_s: int | None, tuning: Tuning = TUNING) -> Proof:
        """What surely came of the fleet since then: more late than the objective allows, or few."""
        numbers = tuning.objective
        if since_s is None or self.folded_s is None:
            return Proof.NONE
        if self.folded_s - since_s < numbers.least_judged_s:
            return Proof.NONE
        judged_s = min(self.folded_s - since_s, int(numbers.budget_window_s))
        minutes = judged_s // MINUTE_S
        finished, good = sum(self.finished[-minutes:]), sum(self.good[-minutes:])
        late, allowed = finished - good, (1.0 - attainment) * finished
        if late > allowed + numbers.short_deviations * sqrt(max(1.0, allowed)):
            return Proof.SHORT
        at_most = late + numbers.ample_deviations * sqrt(late + 1.0)
        ample = judged_s >= numbers.least_ample_s and at_most < numbers.ample_share * allowed
        return Proof.AMPLE if ample else Proof.NONE


@dataclass(frozen=True, slots=True)
class _Column:
    """Counts by units of time, so many of them kept."""

    unit_s: int
    kept: int

    def rolled(
        self,
        last: int,
        columns: tuple[tuple[int, ...], tuple[int, ...]],
        rows: Sequence[tuple[int, int, int]],
        *,
        until_s: int,
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The columns moved on to the unit of `until_s`, with `rows` counted where they belong."""
        newest = until_s // self.unit_s
        added = min(self.kept, newest - last)
        finished, good = ([*column, *[0] * added][-self.kept :] for column in columns)
        for second, ended, fine in rows:
            back = newest - second // self.unit_s
            if back < len(finished):
                finished[-1 - back] += ended
                # No more can be good than ended, whatever a router says.
                good[-1 - back] += min(fine, ended)
        return tuple(finished), tuple(good)
