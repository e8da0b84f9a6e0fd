"""The error budget: the violations that the objective allows in a window, and the rest of them.

Ended requests are counted by the minute for six hours and by the hour for thirty days.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import floor, sqrt

from tandem_operator.core.observation import FinishedSecond, RouterReport
from tandem_operator.core.observe.arrivals import WAKE
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
"""Pairs of windows for alerts: the long one shows that it matters, the short one that it lasts."""
MOST_UNSEEN = 0.5
"""The largest share of a window without reports of routers; beyond it the window has no value."""


class Proof(Enum):
    """The verdict of late requests on the fleet that served them."""

    NONE = "none"
    SHORT = "short"
    AMPLE = "ample"


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """The rest of an error budget; `None` if too few requests ended or were seen.

    Attributes:
        remaining_share: of the hour's budget; below zero it is overspent.
        remaining_30d_share: of the budget of thirty days.
        burn_rates: by window of `BURN_WINDOWS_S`: spending over the allowed spending.
        late_requests: by the same windows, without requests that were late for a wake; empty while
            no ended request was counted or could be.
    """

    remaining_share: float | None = None
    remaining_30d_share: float | None = None
    burn_rates: Mapping[str, float] = field(default_factory=dict)
    late_requests: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """Requests that ended, and the good ones among them.

    Attributes:
        folded_s: the second up to which ended requests are counted.
        minute, hour: numbers of the latest minute and hour since the epoch; their entry is last.
        woken, hourly_woken: requests that were late for a wake; empty while there are none.
    """

    folded_s: int | None = None
    minute: int = 0
    finished: tuple[int, ...] = ()
    good: tuple[int, ...] = ()
    hour: int = 0
    hourly_finished: tuple[int, ...] = ()
    hourly_good: tuple[int, ...] = ()
    woken: tuple[int, ...] = ()
    hourly_woken: tuple[int, ...] = ()

    @property
    def awake(self) -> "ErrorBudget":
        """Return the budget spent while the pool was awake, by which a fleet is judged.

        A request that waited for a pool at zero counts as late elsewhere, but no spare replica
        would have helped it.
        """
        if not any(self.woken):
            return self
        finished = tuple(
            max(good, ended - woken)
            for ended, good, woken in zip(self.finished, self.good, self.woken, strict=True)
        )
        return replace(self, finished=finished, woken=(), hourly_woken=())

    def fold(self, reports: Sequence[RouterReport], *, tuning: Tuning = TUNING) -> "ErrorBudget":
        """Return the budget with the requests that ended since the last look."""
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
            # Requests that ended before keep their age. Requests that end from now on are counted.
            minute, hour = until_s // MINUTE_S, until_s // HOUR_S
            return replace(self, folded_s=until_s, minute=minute, hour=hour)
        if until_s <= self.folded_s:
            return self
        ended = [
            row
            for report in reports
            for row in report.finished
            if self.folded_s < row.second <= until_s
        ]
        rows = [(row.second, row.finished, row.good) for row in ended]
        minutes = _Column(MINUTE_S, MINUTES_KEPT).rolled(
            self.minute, (self.finished, self.good), rows, until_s=until_s
        )
        hours = _Column(HOUR_S, HOURS_KEPT).rolled(
            self.hour, (self.hourly_finished, self.hourly_good), rows, until_s=until_s
        )
        woken, hourly_woken = self._rolled_wakes(ended, until_s=until_s)
        return ErrorBudget(
            folded_s=until_s,
            minute=until_s // MINUTE_S,
            finished=minutes[0],
            good=minutes[1],
            hour=until_s // HOUR_S,
            hourly_finished=hours[0],
            hourly_good=hours[1],
            woken=woken,
            hourly_woken=hourly_woken,
        )

    def _rolled_wakes(
        self, ended: Iterable[FinishedSecond], *, until_s: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        rows = [(row.second, count, 0) for row in ended if (count := row.blame.get(WAKE, 0))]
        if not rows and not self.woken and not self.hourly_woken:
            return (), ()
        minutes = self.woken or (0,) * len(self.finished)
        hours = self.hourly_woken or (0,) * len(self.hourly_finished)
        return (
            _Column(MINUTE_S, MINUTES_KEPT).rolled(
                self.minute, (minutes, minutes), rows, until_s=until_s
            )[0],
            _Column(HOUR_S, HOURS_KEPT).rolled(self.hour, (hours, hours), rows, until_s=until_s)[0],
        )

    def late_share(self, window_s: float, *, min_finished: int) -> float | None:
        """Return the share of bad requests in the last `window_s`; `None` if too few ended."""
        finished, good = self._ended(window_s)
        return 1.0 - good / finished if finished >= min_finished else None

    def _ended(self, window_s: float) -> tuple[int, int]:
        """Return the requests that ended in the last `window_s`, and the good ones among them."""
        return (
            _latest(self.finished, self.hourly_finished, window_s=window_s),
            _latest(self.good, self.hourly_good, window_s=window_s),
        )

    def _woken(self, window_s: float) -> int:
        return _latest(self.woken, self.hourly_woken, window_s=window_s)

    def burn_rate(
        self, window_s: float, attainment: float, *, tuning: Tuning = TUNING
    ) -> float | None:
        """Return the spending of the budget over the allowed spending."""
        late = self.late_share(window_s, min_finished=tuning.objective.min_finished_requests)
        return None if late is None else late / max(1e-4, 1.0 - attainment)

    def remaining(
        self, attainment: float, window_s: float | None = None, *, tuning: Tuning = TUNING
    ) -> float | None:
        """Return the share of the window's budget that is left; below zero it is overspent.

        Without `window_s` it is the window of the budget itself.
        """
        if window_s is None:
            window_s = tuning.objective.budget_window_s
        burnt = self.burn_rate(window_s, attainment, tuning=tuning)
        return None if burnt is None else 1.0 - burnt

    def left(
        self, attainment: float, *, now_s: float | None = None, tuning: Tuning = TUNING
    ) -> BudgetLeft:
        """Return the rest, for people and for alerts; without `now_s`, as of the last look.

        While no router reports, the last counts cover less and less of each window.
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
                name: finished - good - self._woken(window_s)
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
        """Return the late share to plan for, so that the window's budget is kept.

        Requests that were late before `since_s` led to the present insurance. Only later ones judge
        it.
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

    def burns(self, attainment: float, *, tuning: Tuning = TUNING) -> bool:
        """Return whether surely too many of the latest requests were late."""
        numbers = tuning.objective
        finished, good = self._ended(numbers.burning_s)
        late, allowed = finished - good, (1.0 - attainment) * finished
        chance = numbers.chance_requests + numbers.burning_deviations * sqrt(allowed)
        return late > allowed + chance

    def proof(self, attainment: float, *, since_s: int | None, tuning: Tuning = TUNING) -> Proof:
        """Return the proof since then: surely too many late requests, or surely few."""
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


def _latest(minutes: Sequence[int], hours: Sequence[int], *, window_s: float) -> int:
    """Return the sum of the last `window_s`: of minutes where they reach back so far."""
    counts, unit_s = (hours, HOUR_S) if window_s > MINUTES_KEPT * MINUTE_S else (minutes, MINUTE_S)
    return sum(counts[-max(1, round(window_s / unit_s)) :])


@dataclass(frozen=True, slots=True)
class _Column:
    """Counts by units of time, for a fixed number of units."""

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
        """Return the columns moved on to the unit of `until_s`, with `rows` counted."""
        newest = until_s // self.unit_s
        added = min(self.kept, newest - last)
        finished, good = ([*column, *[0] * added][-self.kept :] for column in columns)
        for second, ended, fine in rows:
            back = newest - second // self.unit_s
            if back < len(finished):
                finished[-1 - back] += ended
                # The good requests cannot exceed the ended ones, whatever a router reports.
                good[-1 - back] += min(fine, ended)
        return tuple(finished), tuple(good)
