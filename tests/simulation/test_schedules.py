"""Pools with known hours under the live core and routing policy, in virtual time."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tandem_operator.core.decision import Reason
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Period, PoolSpec
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.policy import EPOCH_S, Tandem
from tandem_operator.sim.report import Moment, PoolReport
from tandem_operator.sim.simulate import Scenario, simulate
from tests.unit.sim.setups import make_setup, make_spec, of

AFTER_S, START_S = 120.0, 60.0
BEGIN_S, END_S = 900.0, 1800.0
AWAKE = make_spec()
SLEEPS = replace(AWAKE, sleep_after_s=AFTER_S)
ZERO = dict.fromkeys(Role, 0)
# A first request, so that starts and traffic are known, and one long after the hours.
TRAFFIC = of((1.0, 1000, 100), (3000.0, 1000, 100))


def office(**floors: int) -> tuple[Period, ...]:
    return (
        Period(
            schedule="office",
            floors={Role(role): count for role, count in floors.items()},
            start_s=EPOCH_S + BEGIN_S,
            end_s=EPOCH_S + END_S,
            begins="08:00 Europe/Berlin",
            ends="18:00 Europe/Berlin",
        ),
    )


def played(
    spec: PoolSpec, *, sigma: float = 0.1, least_s: float = 2500.0
) -> tuple[PoolReport, Tandem]:
    policy = Tandem()
    scenario = Scenario(pools=(), cold_start=ColdStart(START_S, sigma), least_s=least_s)
    return simulate(make_setup(TRAFFIC, prefill=1, decode=1, spec=spec), policy, scenario), policy


def during(report: PoolReport, from_s: float, until_s: float) -> list[Moment]:
    return [each for each in report.moments if from_s <= each.at_s < until_s]


def sentences(policy: Tandem, at_s: float) -> list[str]:
    decision = next(d for d in policy.decisions if d.at_s - EPOCH_S >= at_s)
    return [plan.sentence for plan in decision.roles.values()]


def test_pods_are_ready_when_the_hours_begin_and_until_they_end() -> None:
    report, _ = played(replace(SLEEPS, periods=office(prefill=3, decode=2)))

    hours = during(report, BEGIN_S, END_S)
    assert {each.ready[Role.PREFILL] for each in hours} == {3}
    assert {each.ready[Role.DECODE] for each in hours} == {2}


def test_pods_are_started_no_earlier_than_a_start_takes() -> None:
    report, _ = played(replace(SLEEPS, periods=office(prefill=3, decode=2)))

    before = during(report, AFTER_S + 60.0, BEGIN_S - 2.5 * START_S)
    assert {tuple(each.asked.values()) for each in before} == {(0, 0)}


def test_a_pool_sleeps_before_and_after_its_hours_and_not_in_them() -> None:
    report, policy = played(replace(SLEEPS, periods=office(prefill=1)))

    asleep = [each.at_s for each in report.moments if each.asked == ZERO]
    assert any(each < BEGIN_S for each in asleep)
    assert not any(BEGIN_S <= each < END_S for each in asleep)
    assert any(each > END_S for each in asleep)
    assert report.moments[-1].at_s > 2400.0
    # Only the request at the end is told as a wake.
    assert policy.memory.rest.wakes == 1


def test_no_count_goes_to_and_fro_around_the_hours() -> None:
    report, _ = played(replace(SLEEPS, periods=office(prefill=3, decode=2)))

    asked = [each.asked[Role.PREFILL] for each in report.moments]
    steps = [after for before, after in pairwise(asked) if after != before]
    assert steps == [0, 3, 0, 1]


def test_a_pool_that_never_sleeps_shrinks_after_its_hours_for_its_own_reasons() -> None:
    report, policy = played(replace(AWAKE, periods=office(prefill=3)))

    shrunk = next(
        each.at_s for each in report.moments if each.at_s > END_S and each.asked[Role.PREFILL] < 3
    )
    assert shrunk >= END_S + AWAKE.stabilization_s - 5.0
    assert report.moments[-1].asked[Role.PREFILL] == 1
    change = next(
        plan
        for decision in policy.decisions
        for plan in decision.roles.values()
        if decision.at_s - EPOCH_S > END_S and plan.to < plan.current
    )
    assert change.reason is Reason.SPARE_CAPACITY


def test_every_decision_says_which_schedule_holds_the_pool() -> None:
    _, policy = played(replace(SLEEPS, periods=office(prefill=3)), sigma=0.0)

    woke = next(
        decision
        for decision in policy.decisions
        if decision.roles[Role.PREFILL].reason is Reason.WAKING
    )
    assert woke.roles[Role.PREFILL].sentence == (
        'prefill 0 -> 3: the schedule "office" holds 3 from 08:00 Europe/Berlin'
    )
    assert woke.roles[Role.DECODE].sentence == (
        'decode 0 -> 1: the schedule "office" keeps the pool awake from 08:00 Europe/Berlin'
    )
    assert sentences(policy, 1400.0) == [
        'prefill stays at 3: the schedule "office" holds 3 until 18:00 Europe/Berlin',
        'decode stays at 1: the schedule "office" keeps the pool awake until 18:00 Europe/Berlin',
    ]


def test_growth_for_a_schedule_is_told_as_its_own() -> None:
    _, policy = played(replace(AWAKE, periods=office(prefill=3)))

    grown = next(
        plan
        for decision in policy.decisions
        for plan in decision.roles.values()
        if plan.to > plan.current
    )
    assert grown.reason is Reason.SCHEDULE
    assert grown.limits_hit == ()
    assert (
        grown.sentence == 'prefill 1 -> 3: the schedule "office" holds 3 from 08:00 Europe/Berlin'
    )


def test_a_pool_without_schedules_decides_as_before() -> None:
    plain, _ = played(SLEEPS)
    later, _ = played(
        replace(
            SLEEPS,
            periods=tuple(
                replace(each, start_s=each.start_s + 1e6, end_s=(each.end_s or 0.0) + 1e6)
                for each in office(prefill=3)
            ),
        )
    )

    assert plain.to_json() == later.to_json()


@pytest.mark.parametrize("restart_s", [830.0, 850.0, 900.0, 1200.0])
def test_a_restart_of_the_operator_changes_nothing(restart_s: float) -> None:
    """Without its memory it knows no start, and asks earlier or later, but sends no pod away."""

    class Restarted(Tandem):
        def tick(self, spec, observation, now_s):  # type: ignore[no-untyped-def]
            if now_s - EPOCH_S >= restart_s and not self.restarted:
                self.restarted = True
                self.memory = type(self.memory)()
            return super().tick(spec, observation, now_s)

        restarted = False

    policy = Restarted()
    spec = replace(SLEEPS, periods=office(prefill=3, decode=2))
    scenario = Scenario(pools=(), cold_start=ColdStart(START_S), least_s=2500.0)
    report = simulate(make_setup(TRAFFIC, prefill=1, decode=1, spec=spec), policy, scenario)

    hours = during(report, BEGIN_S + 30.0, END_S)
    assert {each.asked[Role.PREFILL] for each in hours} == {3}
    asked = [each.asked[Role.PREFILL] for each in during(report, 0.0, END_S)]
    steps = [after for before, after in pairwise(asked) if after != before]
    assert steps == [0, 3]
