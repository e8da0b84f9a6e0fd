"""Schedules of a spec as periods of plain data: the only place that reads cron and time zones.

A schedule whose periods touch or overlap is in force for their union. A start that a change to
summer time skips comes when the gap ends, and one that comes twice counts the first time, as in
cron.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from tandem_operator.api import Schedule, duration_s
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Period

LONGEST_FOLD = timedelta(hours=3)
"""No time zone sets its clocks back by more at once."""
MINUTE_S = 60
HOUR_S = 3600.0
HORIZON_S = 14 * 86_400.0
"""Twice the longest duration. An end that is further away is not looked for."""
MOST_STARTS = 500
"""Starts that are looked at for the end of a period. One that goes on for longer has no end."""


_OF_THE_MACHINE = frozenset(("localtime", "posixrules", "Factory"))


class _Clock(CronSim):
    """Cron that never stands at a time of day which its zone skips: there it would go on for ever.

    Such a time is what a step to another day or month leads to, if clocks change at midnight.
    Steps of hours take each hour from its first minute, where clocks change by half an hour too.
    """

    def tick(self, seconds: int = 1) -> None:
        before = self.dt
        super().tick(seconds)
        if seconds > MINUTE_S and _changed_s(before, self.dt) % HOUR_S:
            self.dt = before
            while not _changed_s(before, self.dt):
                super().tick(MINUTE_S)

    def advance_hour(self) -> bool:
        moved: bool = super().advance_hour()
        if moved and self.dt.minute:
            self.dt = self.dt.replace(minute=0)
            self._exist()
        return moved

    def _exist(self) -> None:
        back = self.tick_direction < 0
        self.dt = self.dt.replace(fold=int(back)).astimezone(UTC).astimezone(self.dt.tzinfo)

    def advance_month(self) -> None:
        before = self.dt
        super().advance_month()
        if self.dt is not before:
            self._exist()

    def reverse_month(self) -> None:
        before = self.dt
        super().reverse_month()
        if self.dt is not before:
            self._exist()

    def advance_day(self) -> bool:
        moved: bool = super().advance_day()
        if moved:
            self._exist()
        return moved

    def reverse_day(self) -> bool:
        moved: bool = super().reverse_day()
        if moved:
            self._exist()
        return moved


def _changed_s(before: datetime, after: datetime) -> float:
    """Return by how much clocks are set forward between two times of one zone."""
    return (
        (after.utcoffset() or timedelta()) - (before.utcoffset() or timedelta())
    ).total_seconds()


def time_zone(name: str) -> ZoneInfo | None:
    """Return the time zone of that name; `None` if the IANA database has none."""
    if name in _OF_THE_MACHINE or name.startswith(("posix/", "right/")):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # What the database does not have, and names of its folders and of files beside it.
        return None


@lru_cache(maxsize=512)
def is_cron(expression: str) -> bool:
    """Return whether it is a cron expression that begins at some time."""
    try:
        next(_Clock(expression, datetime(2000, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration):
        return False
    return True


def periods_around(schedules: Iterable[Schedule], now_s: float) -> tuple[Period, ...]:
    """What is in force now, and the next periods of each schedule, at least one."""
    hour = int(now_s // HOUR_S)
    return tuple(
        period for each in schedules for period in _around(each, hour) if not period.over(now_s)
    )


def periods_within(
    schedules: Iterable[Schedule], *, from_s: float, span_s: float, begins_s: float
) -> tuple[Period, ...]:
    """All periods of a span, with times as if `from_s` were `begins_s`."""
    shift_s, until_s = begins_s - from_s, from_s + span_s
    return tuple(
        replace(
            period,
            start_s=period.start_s + shift_s,
            end_s=None if period.end_s is None else period.end_s + shift_s,
        )
        for each in schedules
        for period in _periods(each, from_s, until_s=until_s)
        if period.start_s <= until_s
    )


# Reading an expression takes up to a tenth of a second, and each pass asks again.
@lru_cache(maxsize=512)
def _around(schedule: Schedule, hour: int) -> tuple[Period, ...]:
    """All periods of an hour, and the next one after it."""
    found: list[Period] = []
    for period in _periods(schedule, HOUR_S * hour):
        found.append(period)
        if period.start_s >= HOUR_S * (hour + 1):
            break
    return tuple(found)


def _periods(
    schedule: Schedule, from_s: float, *, until_s: float | None = None
) -> Iterator[Period]:
    """Periods that have not ended by `from_s`, in order, up to the first that is not whole.

    One that goes on after `until_s`, or after so many starts where there is no such time, has no
    end.
    """
    lasts_s = duration_s(schedule.duration)
    first: datetime | None = None
    last: datetime | None = None
    seen = 0
    for start in _starts(schedule, from_s, lasts_s=lasts_s):
        if first is None or last is None:
            first = start
        elif start.timestamp() > last.timestamp() + lasts_s:
            yield _period(schedule, first, last, lasts_s)
            first, seen = start, 0
        last, seen = start, seen + 1
        if until_s is None:
            far = seen > MOST_STARTS or (seen > 1 and start.timestamp() > from_s + HORIZON_S)
        else:
            far = start.timestamp() > until_s
        if far:
            yield replace(_period(schedule, first, last, lasts_s), end_s=None, ends=None)
            return
    if first is not None and last is not None:
        yield _period(schedule, first, last, lasts_s)


def _starts(schedule: Schedule, from_s: float, *, lasts_s: float) -> Iterator[datetime]:
    """Starts in order, from the latest whose period goes on at `from_s`."""
    zone = time_zone(schedule.time_zone) or UTC
    now = datetime.fromtimestamp(from_s, tz=zone)
    before = _latest(schedule.start, now)
    if before is not None and before.timestamp() + lasts_s > from_s:
        yield before
    # It forgets which of two equal times of day `now` is, and may begin with one that is over.
    for start in _Clock(schedule.start, now):
        if start.timestamp() > from_s:
            yield start


def _latest(expression: str, now: datetime) -> datetime | None:
    """The latest start that is not after `now`."""
    # Backwards too it forgets which of two equal times of day it begins at.
    later = (now.astimezone(UTC) + LONGEST_FOLD).astimezone(now.tzinfo)
    for start in _Clock(expression, later, reverse=True):
        if start.timestamp() <= now.timestamp():
            return start
    return None


def _period(schedule: Schedule, first: datetime, last: datetime, lasts_s: float) -> Period:
    end = datetime.fromtimestamp(last.timestamp() + lasts_s, tz=first.tzinfo)
    clock = "%H:%M:%S" if end.second else "%H:%M"
    day = "" if end.date() == first.date() else "%Y-%m-%d "
    return Period(
        schedule=schedule.name,
        floors={Role(role): count for role, count in schedule.floors.items()},
        start_s=first.timestamp(),
        end_s=end.timestamp(),
        begins=f"{first:%H:%M} {schedule.time_zone}",
        ends=f"{end:{day}{clock}} {schedule.time_zone}",
    )
