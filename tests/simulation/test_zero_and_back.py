"""Pools that go to zero and come back, under the live core and routing policy, in virtual time."""

from dataclasses import replace

import pytest

from tandem_operator.core.decision import Reason
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo, SloClass
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.policy import Tandem
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.simulate import NOTICED_S, Scenario, Simulation, simulate
from tandem_operator.sim.traces.trace import Trace, joined, of_class
from tests.unit.sim.setups import make_setup, make_spec, of, steady

AFTER_S, START_S = 120.0, 60.0
SPEC = replace(make_spec(), sleep_after_s=AFTER_S)
BATCH = SloClass("batch", Slo(600.0, 0.0, 1.0, 0.5), guaranteed=False)
WITH_BATCH = replace(SPEC, classes=(SloClass("default", SPEC.slo), BATCH))
ZERO = dict.fromkeys(Role, 0)


def played(
    trace: Trace, *, least_s: float = 0.0, spec: PoolSpec = SPEC
) -> tuple[PoolReport, Tandem]:
    policy = Tandem()
    scenario = Scenario(pools=(), cold_start=ColdStart(START_S), least_s=least_s)
    return simulate(make_setup(trace, prefill=1, decode=1, spec=spec), policy, scenario), policy


def test_a_pool_goes_to_zero_and_the_next_request_is_served_within_one_start() -> None:
    report, policy = played(of((1.0, 1000, 100), (500.0, 1000, 100)), least_s=700.0)

    assert report.completed == 2
    assert report.blame == {"wake": 1}
    assert report.ttft_s["p99"] is not None
    assert START_S < report.ttft_s["p99"] < 1.1 * START_S
    assert policy.memory.rest.wakes == 1
    assert report.moments[-1].asked == ZERO


def test_best_effort_that_comes_now_and_then_keeps_a_pool_awake() -> None:
    trace = of_class(of(*((101.3 * i, 1000, 100) for i in range(5))), "batch")

    report, policy = played(trace, spec=WITH_BATCH)

    assert report.completed == 5
    assert policy.memory.rest.wakes == 0


def test_the_roles_are_at_zero_together_at_every_moment() -> None:
    report, _ = played(of(*((300.0 * i, 1000, 100) for i in range(3))), least_s=900.0)

    assert {tuple(count == 0 for count in m.asked.values()) for m in report.moments} == {
        (True, True),
        (False, False),
    }


def test_a_wake_is_sized_for_what_waits() -> None:
    """Two hundred long prompts at once: one replica would take twice a start for them."""
    history = [(1.0 + 2 * i, 24_000, 100) for i in range(20)]
    herd = [(401.0 + i * 0.005, 24_000, 100) for i in range(200)]

    report, policy = played(of(*history, *herd))

    woke = next(
        decision
        for decision in policy.decisions
        if any(plan.reason is Reason.WAKING for plan in decision.roles.values())
    )
    assert woke.roles[Role.PREFILL].to > 1
    assert report.completed == 220


@pytest.mark.parametrize(("slo_class", "waited"), [("", 900), ("batch", 1)])
def test_a_wake_is_sized_without_best_effort(slo_class: str, waited: int) -> None:
    history = of(*((1.0 + 2 * i, 1000, 1500) for i in range(20)))
    herd = of_class(of(*((201.0 + i * 0.001, 1000, 1500) for i in range(900))), slo_class)

    report, policy = played(joined("both", (history, herd)), spec=WITH_BATCH)

    woke = next(
        decision
        for decision in policy.decisions
        if any(plan.reason is Reason.WAKING for plan in decision.roles.values())
    )
    assert (woke.roles[Role.DECODE].to > 1) == (waited > 1)
    assert policy.memory.rest.wake is not None
    assert policy.memory.rest.wake.waited == waited
    assert report.completed == 920


def test_requests_that_waited_for_a_wake_go_before_later_ones() -> None:
    """A wake is known to take longer than this one did."""
    herd = [(301.0 + i * 0.001, 24_000, 100) for i in range(40)]
    after = [(366.0 + i * 0.5, 24_000, 100) for i in range(8)]
    trace = of((1.0, 1000, 100), *herd, *after)
    spec = replace(SPEC, slo=replace(SPEC.slo, ttft_s=60.0))
    setup = make_setup(trace, prefill=1, decode=1, spec=spec)
    scenario = Scenario(pools=(setup,), cold_start=ColdStart(START_S))
    run = Simulation(scenario, {"pool": Tandem()})

    run.run()

    ended = run.pool("pool").ended
    begun = {
        came_s: [f.dispatched_s or 0.0 for f in ended if came_s <= f.request.at_s < came_s + 60.0]
        for came_s in (300.0, 366.0)
    }
    assert [len(each) for each in begun.values()] == [40, 8]
    assert max(begun[300.0]) <= min(begun[366.0])


def test_lateness_of_a_wake_teaches_the_models_nothing() -> None:
    _, policy = played(of(*((300.0 * i, 1000, 100) for i in range(4))))

    memory = policy.memory
    assert memory.rest.wakes == 3
    assert all(factor == 1.0 for factor in memory.correction.slowdown.values())
    assert memory.correction.price <= 1.5
    assert not memory.floors
    assert memory.promise.budget.awake.late_share(3600.0, min_finished=1) in (None, 0.0)


def test_traffic_that_comes_back_just_after_the_bound_does_not_pay_a_start_each_time() -> None:
    visits, every_s = 10, AFTER_S + 48.0
    trace = of(*((visit * every_s + at, 1000, 100) for visit in range(visits) for at in (0, 8)))

    report, policy = played(trace)

    assert policy.memory.rest.wakes <= 3
    assert any(
        plan.reason is Reason.FREQUENT_WAKES
        for decision in policy.decisions
        for plan in decision.roles.values()
    )
    assert report.good >= report.requests - 2 * 3


def test_long_pauses_are_slept_through_although_short_ones_were_not() -> None:
    short = [168.0 * i for i in range(6)]
    trace = of(*((at, 1000, 100) for at in (*short, 2000.0)))

    report, policy = played(trace)

    assert report.completed == 7
    held = [m.at_s for m in report.moments if m.asked != ZERO and 840.0 < m.at_s < 1990.0]
    assert max(held) - 840.0 < AFTER_S + 2 * START_S
    assert policy.memory.rest.wakes >= 1


def test_a_pool_under_load_never_sleeps_and_decides_as_one_that_may_not() -> None:
    trace = steady(2.0, 200.0)

    asleep, may = played(trace)
    awake, may_not = played(trace, spec=replace(SPEC, sleep_after_s=None))

    assert asleep.to_json() == awake.to_json()
    assert [d.roles for d in may.decisions] == [d.roles for d in may_not.decisions]


def test_the_operator_hears_of_the_first_request_before_its_next_tick() -> None:
    _, policy = played(of((1.0, 1000, 100), (302.3, 1000, 100)), least_s=400.0)

    wake = policy.memory.rest.wake
    assert wake is not None
    assert wake.decided_s - wake.asked_s <= NOTICED_S + 1.0
    assert wake.ready_s is not None
    assert wake.first_token_s is not None
    assert wake.asked_s <= wake.decided_s <= wake.ready_s <= wake.first_token_s
