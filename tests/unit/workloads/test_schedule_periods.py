"""Cron, time zones and durations as periods: daylight saving, unions, and what begins next."""

from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_operator.api import Schedule, parse_pool
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Period
from tandem_operator.workloads.checks.unreadable_schedules import schedule_objections
from tandem_operator.workloads.schedule_periods import periods_around, periods_within, time_zone
from tests.unit.workloads.cluster import pool

OFFICE = {"start": "0 8 * * 1-5", "duration": "10h", "timeZone": "Europe/Berlin"}
MONDAY = "2026-11-30T09:00:00+01:00"


def schedule(**changes: object) -> Schedule:
    fields = {"name": "office", "prefill": {"minReplicas": 3}, **OFFICE, **changes}
    return Schedule.model_validate(fields)


def at(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def around(moment: str, **changes: object) -> list[tuple[str, str | None]]:
    """Periods as moments of UTC."""
    return [
        (_utc(each.start_s), None if each.end_s is None else _utc(each.end_s))
        for each in periods_around([schedule(**changes)], at(moment))
    ]


def _utc(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, UTC).strftime("%d %H:%M")


def test_what_is_in_force_and_what_comes_next_are_known() -> None:
    now, coming = periods_around([schedule()], at(MONDAY))

    assert now == Period(
        schedule="office",
        floors={Role.PREFILL: 3},
        start_s=at("2026-11-30T08:00:00+01:00"),
        end_s=at("2026-11-30T18:00:00+01:00"),
        begins="08:00 Europe/Berlin",
        ends="18:00 Europe/Berlin",
    )
    assert coming.start_s == at("2026-12-01T08:00:00+01:00")


def test_a_period_ends_at_its_last_second_and_another_begins_at_its_first() -> None:
    end_s = at("2026-11-30T18:00:00+01:00")

    assert len(periods_around([schedule()], end_s - 0.001)) == 2
    assert len(periods_around([schedule()], end_s)) == 1


def test_an_end_on_another_day_is_told_with_its_date() -> None:
    night = schedule(start="0 22 * * *", duration="8h")

    assert periods_around([night], at(MONDAY))[0].ends == "2026-12-01 06:00 Europe/Berlin"


def test_a_start_that_summer_time_skips_comes_when_the_gap_ends() -> None:
    skipped = {"start": "30 2 * * *", "duration": "1h"}

    assert around("2026-03-28T12:00:00+01:00", **skipped)[0] == ("29 01:00", "29 02:00")
    assert around("2026-03-29T03:10:00+02:00", **skipped)[0] == ("29 01:00", "29 02:00")


@pytest.mark.parametrize("again", ["2026-10-25T02:10:00+02:00", "2026-10-25T02:10:00+01:00"])
def test_a_start_that_comes_twice_counts_the_first_time(again: str) -> None:
    twice = {"start": "30 2 * * *", "duration": "2h"}

    assert around(again, **twice)[0] == ("25 00:30", "25 02:30")


def test_hours_that_go_on_are_in_force_on_a_day_whose_clock_is_set_back_by_half_an_hour() -> None:
    often = schedule(start="30 */2 5 4 *", duration="10h", timeZone="Australia/Lord_Howe")
    begin_s, end_s = at("2026-04-05T00:30:00+11:00"), at("2026-04-06T08:30:00+10:30")

    for now_s in range(int(begin_s), int(end_s), 900):
        now = periods_around([often], now_s)[0]

        assert now.start_s <= now_s
        assert now.end_s == end_s


HALF_HOURS = ("2026-04-04T15:00:00+00:00", "2026-10-03T15:30:00+00:00")
"""The clocks of Lord Howe Island are set back, and forward."""


@pytest.mark.parametrize("change", HALF_HOURS)
@pytest.mark.parametrize("every", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("minutes", "named"),
    [("0", {0}), ("15", {15}), ("30", {30}), ("45", {45}), ("20-22", {20, 21, 22})],
)
def test_every_minute_that_is_named_is_in_force_where_clocks_change_by_half_an_hour(
    change: str, every: int, minutes: str, named: set[int]
) -> None:
    zone = ZoneInfo("Australia/Lord_Howe")
    one = schedule(start=f"{minutes} */{every} * * *", duration="1m", timeZone=zone.key)
    begin_s, span_s = at(change) - 6 * 3600.0, 18 * 3600.0

    found = periods_within([one], from_s=begin_s, span_s=span_s, begins_s=begin_s)

    every_minute = [begin_s + 60 * minute for minute in range(int(span_s) // 60)]
    in_force = {s for s in every_minute for each in found if each.start_s <= s < (each.end_s or 0)}
    clock = {s: datetime.fromtimestamp(s, zone) for s in every_minute}
    assert in_force == {s for s, t in clock.items() if t.hour % every == 0 and t.minute in named}


def test_a_start_that_comes_twice_is_over_after_its_duration() -> None:
    twice = {"start": "30 2 * * *", "duration": "30m"}

    assert around("2026-10-25T02:10:00+01:00", **twice)[0] == ("26 01:30", "26 02:00")


def test_a_duration_is_elapsed_time_while_clocks_change() -> None:
    night = {"start": "0 20 * * *", "duration": "12h"}

    assert around("2026-10-24T22:00:00+02:00", **night)[0] == ("24 18:00", "25 06:00")


def test_starts_that_overlap_or_touch_are_one_period() -> None:
    often = {"start": "*/5 8-9 * * *", "duration": "10m", "timeZone": "UTC"}
    touching = {"start": "0 8,9 * * *", "duration": "1h", "timeZone": "UTC"}

    assert around("2026-11-30T07:00:00+00:00", **often)[0] == ("30 08:00", "30 10:05")
    assert around("2026-11-30T07:00:00+00:00", **touching)[0] == ("30 08:00", "30 10:00")


def test_starts_that_come_before_the_last_has_ended_have_no_end() -> None:
    assert around(MONDAY, start="* * * * *", duration="1h")[0][1] is None
    assert around(MONDAY, start="0 0 * * 1", duration="168h", timeZone="UTC")[0][1] is None


def test_periods_of_a_span_are_moved_with_its_beginning() -> None:
    found = periods_within(
        [schedule(timeZone="UTC")],
        from_s=at("2026-11-30T00:00:00+00:00"),
        span_s=2 * 86_400.0,
        begins_s=1_000.0,
    )

    assert [(each.start_s, each.end_s) for each in found] == [
        (1_000.0 + (24 * day + 8) * 3600.0, 1_000.0 + (24 * day + 18) * 3600.0) for day in (0, 1)
    ]


@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    ("start", "zone"),
    [
        ("0 * 28 3 *", "America/Nuuk"),
        ("0 * * 3 6L", "America/Nuuk"),
        ("0 * 29 3 *", "America/Scoresbysund"),
        ("*/7 1 */2 4 5L", "Africa/Cairo"),
    ],
)
def test_a_day_whose_midnight_is_skipped_holds_up_nothing(start: str, zone: str) -> None:
    for month in range(1, 13):
        now_s = at(f"2026-{month:02}-28T12:00:00+00:00")

        assert periods_around([schedule(start=start, timeZone=zone)], now_s)


@pytest.mark.parametrize("name", ["localtime", "posixrules", "Factory", "right/UTC"])
def test_a_zone_that_depends_on_the_machine_is_none(name: str) -> None:
    assert time_zone(name) is None


MOMENTS = st.integers(1_704_067_200, 1_798_761_600).map(lambda s: datetime.fromtimestamp(s, UTC))
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
STARTS = st.sampled_from(
    ["30 2 * * *", "0 8 * * 1-5", "*/15 2 * * *", "0 */3 * * *", "0,30 0-4 * * *", "59 23 * * 0"]
)


@settings(max_examples=50)
@given(moment=MOMENTS, zone=ZONES, start=STARTS, minutes=st.integers(1, 600))
def test_what_is_in_force_is_what_one_would_have_seen_begin(
    moment: datetime, zone: str, start: str, minutes: int
) -> None:
    """No start is lost or told too early where clocks change: all are known from before."""
    one = schedule(start=start, timeZone=zone, duration=f"{minutes}m")
    now_s, before_s = moment.timestamp(), moment.timestamp() - 2 * 86_400.0
    all_of_it = periods_within([one], from_s=before_s, span_s=4 * 86_400.0, begins_s=before_s)

    found = periods_around([one], now_s)

    def in_force(periods: Sequence[Period], at_s: float) -> bool:
        return any(each.start_s <= at_s and not each.over(at_s) for each in periods)

    assert in_force(found, now_s) == in_force(all_of_it, now_s)
    coming = [each.start_s for each in all_of_it if each.start_s > now_s]
    assert [each.start_s for each in found if each.start_s > now_s][:1] == coming[:1] or not coming


def test_a_span_ends_although_its_hours_never_do() -> None:
    (found,) = periods_within(
        [schedule(start="* * * * *", duration="1h")], from_s=0.0, span_s=86_400.0, begins_s=0.0
    )

    assert found.end_s is None


@given(moment=MOMENTS, zone=ZONES, minutes=st.integers(0, 24 * 60 - 1))
def test_a_daily_start_comes_at_its_time_of_day_unless_the_clock_skips_it(
    moment: datetime, zone: str, minutes: int
) -> None:
    hour, minute = divmod(minutes, 60)
    daily = schedule(start=f"{minute} {hour} * * *", timeZone=zone, duration="1m")

    coming = periods_around([daily], moment.timestamp())[-1]

    local = datetime.fromtimestamp(coming.start_s, ZoneInfo(zone))
    wanted = local.replace(hour=hour, minute=minute, fold=0)
    exists = wanted.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    assert local == wanted or exists != wanted.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("wrong", "field", "instead"),
    [
        ({"start": "0 25 * * *"}, "start", "write for example 0 8 * * 1-5"),
        ({"start": "0 0 30 2 *"}, "start", "write for example 0 8 * * 1-5"),
        ({"timeZone": "Europe/Berlim"}, "timeZone", "write for example Europe/Berlin"),
        ({"timeZone": "Europe"}, "timeZone", "write for example Europe/Berlin"),
        ({"name": "Office hours"}, "name", "write for example office"),
    ],
)
def test_a_schedule_that_no_clock_can_follow_is_refused_in_one_sentence(
    wrong: dict[str, str], field: str, instead: str
) -> None:
    spec = parse_pool(pool({"scaling": {"schedules": [schedule(**wrong).to_object()]}})).spec

    (found,) = schedule_objections(spec.scaling)

    assert found.field == f"scaling.schedules[0].{field}"
    assert str(found).endswith(instead)
