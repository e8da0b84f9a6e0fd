"""The error budget: how many violations the objective allows in a window, and what is left of it.

Endings are kept by the minute for six hours and by the hour for thirty days.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import floor, sqrt

from tandem_operator.core.observation import RouterReport
from tandem_operator.core.tuning.tuning import TUNING

MINUTE_S, HOUR_S = 60, 3600
MINUTES_KEPT, HOURS_KEPT = 360, 720
WINDOW_S = 3600.0
MONTH_S = 30 * 24 * 3600.0
BURN_WINDOWS_S = {"5m": 300.0, "1h": 3600.0, "6h": 21600.0}
# Where seven tenths of the budget are spent, as much is spent as it allows: the rest is for what
# no history shows.
REST = 0.4
LEAST_ALLOWED = 0.1
CHANCE = 5.0
# A fleet is judged after so long: as short where chance would hardly make so many late, and later
# as ample where it hardly uses so much of what is allowed.
LEAST_JUDGED_S, LEAST_AMPLE_S = 60, 900
SHORT_DEVIATIONS, AMPLE_DEVIATIONS, AMPLE_SHARE = 3.0, 2.0, 0.6
MIN_FINISHED = 20


class Proof(Enum):
    """What late requests say about the fleet that served them."""

    NONE = "none"
    SHORT = "short"
    AMPLE = "ample"


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """What is left of an error budget; `None` where too few requests ended to tell.

    Attributes:
        remaining_share: of the hour's budget; below zero where it is overspent.
        remaining_30d_share: of the budget of thirty days.
        burn_rates: by window ("5m", "1h", "6h"), how many times as fast as allowed it is spent.
    """

    remaining_share: float | None = None
    remaining_30d_share: float | None = None
    burn_rates: Mapping[str, float] = field(default_factory=dict)


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

    def fold(self, reports: Sequence[RouterReport]) -> "ErrorBudget":
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
        if until_s < self.folded_s - TUNING.observe.set_back_s:
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

    def late_share(self, window_s: float) -> float | None:
        """Share that was not good in the last `window_s`; `None` where too few ended to tell."""
        if window_s <= MINUTES_KEPT * MINUTE_S:
            count = max(1, round(window_s / MINUTE_S))
            finished, good = sum(self.finished[-count:]), sum(self.good[-count:])
        else:
            count = max(1, round(window_s / HOUR_S))
            finished, good = sum(self.hourly_finished[-count:]), sum(self.hourly_good[-count:])
        return 1.0 - good / finished if finished >= MIN_FINISHED else None

    def burn_rate(self, window_s: float, attainment: float) -> float | None:
        """How many times as fast as allowed the budget is spent."""
        late = self.late_share(window_s)
        return None if late is None else late / max(1e-4, 1.0 - attainment)

    def remaining(self, attainment: float, window_s: float = WINDOW_S) -> float | None:
        """Share of the window's budget that is left; below zero where it is overspent."""
        burnt = self.burn_rate(window_s, attainment)
        return None if burnt is None else 1.0 - burnt

    def left(self, attainment: float) -> BudgetLeft:
        """What is left of it, for people and for alerts."""
        rates = {name: self.burn_rate(s, attainment) for name, s in BURN_WINDOWS_S.items()}
        return BudgetLeft(
            remaining_share=self.remaining(attainment),
            remaining_30d_share=self.remaining(attainment, MONTH_S),
            burn_rates={name: rate for name, rate in rates.items() if rate is not None},
        )

    def allowed_late(self, attainment: float, *, since_s: int | None = None) -> float:
        """The late share to plan for, so that the window's budget is kept.

        What was late before `since_s` has been answered: what has held since then is judged.
        """
        window_s = WINDOW_S
        if since_s is not None and self.folded_s is not None:
            window_s = min(WINDOW_S, max(MINUTE_S, self.folded_s - since_s))
        minutes = max(1, round(window_s / MINUTE_S))
        finished, good = sum(self.finished[-minutes:]), sum(self.good[-minutes:])
        # A few late requests of a young window are chance.
        burnt = (finished - good) / ((1.0 - attainment) * finished + CHANCE)
        return (1.0 - attainment) * min(1.0, max(LEAST_ALLOWED, REST + 1.0 - burnt))

    def proof(self, attainment: float, *, since_s: int | None) -> Proof:
        """What surely came of the fleet since then: more late than the objective allows, or few."""
        if since_s is None or self.folded_s is None or self.folded_s - since_s < LEAST_JUDGED_S:
            return Proof.NONE
        judged_s = min(self.folded_s - since_s, int(WINDOW_S))
        minutes = judged_s // MINUTE_S
        finished, good = sum(self.finished[-minutes:]), sum(self.good[-minutes:])
        late, allowed = finished - good, (1.0 - attainment) * finished
        if late > allowed + SHORT_DEVIATIONS * sqrt(max(1.0, allowed)):
            return Proof.SHORT
        at_most = late + AMPLE_DEVIATIONS * sqrt(late + 1.0)
        ample = judged_s >= LEAST_AMPLE_S and at_most < AMPLE_SHARE * allowed
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
                good[-1 - back] += fine
        return tuple(finished), tuple(good)
