"""Schedules of a pool, as everybody else sees them: status, metrics, children, refusals."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tandem_operator.core.role import Role
from tandem_operator.workloads.pass_plan import plan
from tests.unit.workloads.cluster import NOW_S, after, condition, pool, report, running, status_of
from tests.unit.workloads.test_sleep import SLEEPS, asleep

# 2026-09-21T14:13:20Z, a Monday.
HOUR_S, SINCE_8_S = 3600.0, 6 * 3600.0 + 13 * 60.0 + 20.0


def office(start: str = "0 8 * * 1-5", *, time_zone: str = "UTC") -> Mapping[str, Any]:
    return {
        "scaling": {
            "schedules": [
                {
                    "name": "office",
                    "start": start,
                    "duration": "10h",
                    "timeZone": time_zone,
                    "prefill": {"minReplicas": 3},
                }
            ]
        }
    }


def test_a_schedule_in_force_holds_its_replicas_and_says_so() -> None:
    planned = plan(running(office()), now_s=NOW_S)

    assert planned.replicas["prefill"] == 3
    assert planned.decision is not None
    assert planned.decision.roles[Role.PREFILL].sentence == (
        'prefill 1 -> 3: the schedule "office" holds 3 until 18:00 UTC'
    )
    (event,) = [each for each in planned.events if each.reason == "Schedule"]
    assert event.message.startswith("prefill 1 -> 3")


def test_a_schedule_that_is_not_in_force_holds_nothing() -> None:
    planned = plan(running(office("0 20 * * *")), now_s=NOW_S)

    assert planned.replicas["prefill"] == 1


def test_status_tells_until_when_a_schedule_is_in_force_and_when_it_comes_next() -> None:
    assert status_of(running(office()))["schedules"] == [
        {"name": "office", "until": "2026-09-21T18:00:00Z", "next": "2026-09-22T08:00:00Z"}
    ]
    assert status_of(running(office("0 20 * * *")))["schedules"] == [
        {"name": "office", "next": "2026-09-21T20:00:00Z"}
    ]
    assert "schedules" not in status_of(running())


def test_the_time_zone_decides_when_a_schedule_begins() -> None:
    assert status_of(running(office(time_zone="Asia/Tokyo")))["schedules"] == [
        {"name": "office", "next": "2026-09-21T23:00:00Z"}
    ]


def test_a_pool_is_ready_with_its_own_minimum_while_a_schedule_adds_pods() -> None:
    """Else it would be unready each morning, to whoever waits for it or is alerted by it."""
    assert condition(status_of(running(office())), "Ready")["status"] == "True"


def test_a_pool_at_zero_wakes_for_a_schedule() -> None:
    edited = replace(asleep(), pool=pool(SLEEPS, office()))
    live = replace(edited, routers=(report(now_s=NOW_S + 10),))
    planned = plan(live, now_s=NOW_S + 10)

    assert planned.replicas["prefill"] == 3
    assert planned.replicas["decode"] == 1
    told = condition(status_of(after(live, planned), now_s=NOW_S + 11), "Available")
    assert told["reason"] == "Waking"
    assert "A schedule wakes both roles" in told["message"]


def test_a_paused_pool_keeps_its_counts_in_known_hours() -> None:
    planned = plan(running(office(), {"scaling": {"mode": "Paused"}}), now_s=NOW_S)

    assert "prefill" not in planned.replicas


def test_a_schedule_that_no_clock_can_follow_leaves_the_pool_as_it_is() -> None:
    planned = plan(replace(running(), pool=pool(office("0 25 * * *"))), now_s=NOW_S)

    assert planned.decision is None
    accepted = condition(planned.status or {}, "Accepted")
    assert accepted["status"] == "False"
    assert "scaling.schedules[0].start: '0 25 * * *' names no time" in accepted["message"]


def test_what_was_asked_for_early_is_remembered_by_the_next_process() -> None:
    # It begins in 46 min and 40 s less 46 min.
    now_s = NOW_S + 46 * 60.0
    live = running(office("0 15 * * *"))
    planned = plan(live, now_s=now_s)

    assert planned.replicas["prefill"] == 3
    restarted = replace(after(live, planned), memory=None)
    assert plan(restarted, now_s=now_s + 5).memory.early_s == planned.memory.early_s
