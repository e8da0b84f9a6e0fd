"""Whole runs: nothing is lost, nothing is made up, the same seed gives the same run."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_operator.core.observation import Observation, PodPhase
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.cluster.faults import (
    CapacityBlocked,
    MetricsGone,
    PodLoss,
    Reclaimed,
    SlowPod,
    SlowStarts,
)
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.engines.own_measurement import measured_at_start
from tandem_operator.sim.policy import PolicyAnswer, Static, Tandem
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.routing.router_queue import Order, QueueSettings, Spread
from tandem_operator.sim.simulate import Scenario, Simulation, simulate
from tandem_operator.sim.traces.trace import Trace, TraceRequest
from tests.unit.sim.setups import ENGINE, counts, make_setup, make_spec, of, steady

pytestmark = pytest.mark.simulates


class Plan:
    """Asks for the counts of a list, one tick after the other, and notes what it saw."""

    name = "plan"

    def __init__(self, *asked: tuple[int, int], tick_s: float = 5.0) -> None:
        self.asked = [counts(*each) for each in asked]
        self.tick_s = tick_s
        self.seen: list[Observation] = []

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        step = min(len(self.seen), len(self.asked) - 1)
        self.seen.append(observation)
        return PolicyAnswer(self.asked[step], self.tick_s)


def test_ttft_of_a_lone_request_is_prefill_transfer_and_one_step() -> None:
    setup = make_setup(of((1.0, 2000, 10)))

    report = simulate(setup, Static(setup.start))

    steps = [ENGINE.step_s(1, 2000 + made) for made in range(10)]
    alone_s = ENGINE.service_s(2000) + ENGINE.handover_s(2000)
    assert report.ttft_s["p50"] == pytest.approx(alone_s + steps[0])
    assert report.tpot_s["p50"] == pytest.approx(sum(steps[1:]) / 9)
    assert report.good == 1
    assert report.end_s == pytest.approx(1.0 + alone_s + sum(steps))


def test_gpu_seconds_are_those_of_starting_and_draining_pods_too() -> None:
    setup = make_setup(of((0.0, 100, 5), (100.0, 100, 5)), prefill=1, decode=1)

    report = simulate(
        setup, Plan((2, 1), (1, 1), tick_s=20.0), Scenario(pools=(), cold_start=ColdStart(60.0))
    )

    # Asked for at 5 s and given back, before it was ready, at 25 s.
    assert report.gpu_seconds[Role.PREFILL] == pytest.approx(report.end_s + 20.0)
    assert report.gpu_seconds[Role.DECODE] == pytest.approx(report.end_s)


def test_the_emptiest_pod_drains_and_finishes_what_it_has() -> None:
    trace = of(*((0.0, 200, 2000) for _ in range(3)), (20.0, 100, 5))
    setup = make_setup(trace, prefill=1, decode=2)
    run = Simulation(Scenario(pools=(setup,)), {"pool": Plan((1, 1))})

    report = run.run()["pool"]

    (gone,) = run.pool("pool").decode.gone
    assert report.completed == 4
    assert gone.engine.tokens_made == 2000
    assert gone.gone_s == gone.engine.at_s
    assert gone.gone_s > 7.0


@pytest.mark.parametrize(("spread", "gone"), [(Spread.PREFIX, 0), (Spread.LEAST_LOADED, 1)])
def test_the_prefill_pod_whose_cache_saved_least_leaves_first(spread: Spread, gone: int) -> None:
    # Two conversations, each at a pod of its own; that at the younger pod goes on.
    turns = [(0.0, 1), (0.0, 2), *((at_s, 2) for at_s in (1.0, 2.0, 3.0, 9.0))]
    trace = Trace(
        "turns",
        tuple(TraceRequest(at_s, 5000, 5, (9 * who, 9 * who + 1)) for at_s, who in turns),
    )
    setup = make_setup(trace, decode=1, router=QueueSettings(spread=spread))
    run = Simulation(Scenario(pools=(setup,)), {"pool": Plan((1, 1))})

    run.run()

    assert [pod.index for pod in run.pool("pool").prefill.gone] == [gone]


@pytest.mark.parametrize(("outputs", "index"), [((500, 2000), 0), ((2000, 500), 1)])
def test_the_emptiest_pod_is_that_of_now_and_not_of_metrics_that_come_late(
    outputs: tuple[int, int], index: int
) -> None:
    trace = of(*((0.0, 200, tokens) for tokens in outputs))
    setup = make_setup(trace, prefill=1, decode=2, metric_delay_s=4.0)
    run = Simulation(Scenario(pools=(setup,)), {"pool": Plan((1, 1))})

    report = run.run()["pool"]

    # Empty since two seconds, and held until it was given back at the tick.
    (gone,) = run.pool("pool").decode.gone
    assert (gone.index, gone.gone_s) == (index, 5.0)
    assert report.gpu_seconds[Role.DECODE] == pytest.approx(report.end_s + 5.0)


def test_pods_wait_unscheduled_for_gpus_that_another_pool_gives_back() -> None:
    first = make_setup(steady(2.0, 120.0), name="first", prefill=2, decode=2)
    second = make_setup(steady(2.0, 120.0, seed=2), name="second", prefill=1, decode=1)
    plans = {
        "first": Plan((2, 2), (2, 2), (1, 1), tick_s=10.0),
        "second": Plan((2, 2), tick_s=10.0),
    }
    scenario = Scenario(pools=(first, second), gpus=6, cold_start=ColdStart(5.0))
    run = Simulation(scenario, plans)

    reports = run.run()

    phases = {pod.phase for seen in plans["second"].seen for pod in seen.pods}
    assert PodPhase.UNSCHEDULED in phases
    assert run.cluster.most_held <= 6
    assert reports["second"].moments[-1].ready == counts(2, 2)


def test_a_dead_decode_pod_fails_the_streams_it_had_begun_and_no_other() -> None:
    trace = of(*((0.0, 200, 600) for _ in range(4)))
    setup = make_setup(trace, prefill=1, decode=2, faults=(PodLoss(2.0, Role.DECODE),))

    report = simulate(setup, Static(setup.start))

    assert report.failed == 2
    assert report.completed == 2
    assert report.blame["error"] == 2


def test_work_of_a_dead_prefill_pod_begins_anew_at_the_decode_pods() -> None:
    trace = of(*((0.0, 8000, 10) for _ in range(4)))
    setup = make_setup(trace, prefill=1, decode=1, faults=(PodLoss(0.3, Role.PREFILL),))

    report = simulate(setup, Static(setup.start), Scenario(pools=(), cold_start=ColdStart(10.0)))

    assert report.completed == 4
    assert report.failed == 0
    assert report.overflowed == 3
    assert 0.3 < (report.ttft_s["p99"] or 0.0) < 10.0


@pytest.mark.parametrize(("notice_s", "failed"), [(0.1, 2), (30.0, 0)])
def test_a_pod_that_is_taken_back_finishes_what_its_notice_leaves_time_for(
    notice_s: float, failed: int
) -> None:
    trace = of(*((0.0, 100, 200) for _ in range(4)))
    reclaimed = Reclaimed(0.3, Role.DECODE, notice_s)
    setup = make_setup(trace, prefill=1, decode=2, faults=(reclaimed,))

    report = simulate(setup, Static(setup.start))

    assert report.failed == failed
    assert report.completed == 4 - failed


def test_a_slow_pod_is_seen_in_tpot_while_it_is_slow() -> None:
    trace = steady(4.0, 60.0)
    slow = SlowPod(10.0, 40.0, Role.DECODE, factor=5.0)
    calm, slowed = make_setup(trace), make_setup(trace, faults=(slow,))

    before = simulate(calm, Static(calm.start))
    after = simulate(slowed, Static(slowed.start))

    assert (after.tpot_s["p95"] or 0.0) > 2.0 * (before.tpot_s["p95"] or 1.0)


def test_every_engine_tells_its_own_measurement() -> None:
    plan = Plan((1, 1))

    simulate(make_setup(steady(2.0, 10.0)), plan)

    assert plan.seen
    for seen in plan.seen:
        assert {engine.role for engine in seen.engines} == set(Role)
        for engine in seen.engines:
            assert engine.start_up == measured_at_start(ENGINE, engine.role)


def test_metrics_that_are_gone_leave_pods_and_counts_visible() -> None:
    plan = Plan((2, 2))
    setup = make_setup(steady(2.0, 60.0), faults=(MetricsGone(20.0, 40.0),))

    simulate(setup, plan)

    missing = [seen for seen in plan.seen if not seen.routers]
    assert len(missing) == 4
    assert all(len(seen.pods) == 4 and not seen.engines for seen in missing)


def test_half_the_engines_may_be_silent_while_the_routers_answer() -> None:
    plan = Plan((2, 2))
    gone = MetricsGone(20.0, 40.0, routers=False, engine_share=0.5)
    setup = make_setup(steady(2.0, 60.0), faults=(gone,))

    simulate(setup, plan)

    assert [len(seen.engines) for seen in plan.seen].count(2) == 4
    assert all(seen.routers and len(seen.pods) == 4 for seen in plan.seen)


def test_requests_find_their_blocks_again() -> None:
    requests = tuple(
        TraceRequest(float(i), 4000, 5, tuple(range(8 * (i % 3), 8 * (i % 3) + 7)))
        for i in range(60)
    )
    trace = Trace("shared", requests)

    def hits(spread: Spread) -> int:
        setup = make_setup(trace, prefill=4, router=QueueSettings(spread=spread))
        run = Simulation(Scenario(pools=(setup,)), {"pool": Static(setup.start)})
        run.run()
        return sum(flight.cached_tokens > 0 for flight in run.pool("pool").ended)

    assert hits(Spread.PREFIX) == 57
    assert hits(Spread.CACHES) == 57
    assert hits(Spread.HASHED) == 57
    assert hits(Spread.ROUND_ROBIN) == 48


def test_metrics_come_as_old_as_their_delay_and_pods_as_they_are() -> None:
    plan = Plan((2, 2), (3, 2))
    setup = make_setup(steady(2.0, 60.0), metric_delay_s=4.0)

    simulate(setup, plan)

    ages = [seen.routers[0].sampled_s for seen in plan.seen]
    assert ages[1] - ages[0] == pytest.approx(5.0)
    assert plan.seen[2].replicas == counts(3, 2)
    assert len(plan.seen[2].pods) == 5


@pytest.mark.parametrize("delay_s", [0.0, 2.0, 5.0, 12.0])
def test_metrics_are_never_younger_than_their_delay(delay_s: float) -> None:
    class Ages(Plan):
        ages: tuple[float, ...] = ()

        def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
            self.ages += tuple(now_s - report.sampled_s for report in observation.routers)
            return super().tick(spec, observation, now_s)

    plan = Ages((2, 2))
    setup = make_setup(steady(2.0, 60.0), metric_delay_s=delay_s)

    simulate(setup, plan)

    assert len(plan.ages) >= 8
    assert min(plan.ages) >= delay_s - 1e-3
    assert max(plan.ages) <= delay_s + 5.0


def test_a_blocked_cluster_binds_nothing_until_it_is_free_again() -> None:
    setup = make_setup(steady(2.0, 120.0))
    scenario = Scenario(
        pools=(setup,),
        cold_start=ColdStart(10.0),
        faults=(CapacityBlocked(0.0, 50.0), SlowStarts(50.0, 60.0, factor=2.0)),
    )
    run = Simulation(scenario, {"pool": Plan((3, 2))})

    run.run()

    made = run.pool("pool").prefill.pods[-1]
    assert made.bound_s == 50.0
    assert made.ready_s == 70.0


def test_deadline_order_serves_requests_in_an_overload_that_arrival_order_makes_late() -> None:
    trace = steady(40.0, 60.0)
    settings = [
        QueueSettings(order=order, overflow=False) for order in (Order.FIFO, Order.DEADLINE)
    ]
    setups = [make_setup(trace, prefill=1, decode=4, router=each) for each in settings]

    fifo, deadline = (simulate(setup, Static(setup.start)) for setup in setups)

    assert deadline.attainment > fifo.attainment + 0.2


def test_overflow_to_decode_pods_with_slack_helps_at_once() -> None:
    trace = steady(40.0, 30.0)
    routers = [QueueSettings(overflow=overflow) for overflow in (False, True)]
    setups = [make_setup(trace, prefill=1, decode=4, router=each) for each in routers]

    without, with_overflow = (simulate(setup, Static(setup.start)) for setup in setups)

    assert with_overflow.overflowed > 0
    assert with_overflow.attainment > without.attainment + 0.1
    assert with_overflow.output_tokens == without.output_tokens


def test_the_live_core_grows_a_fleet_that_is_too_small_and_keeps_the_slo() -> None:
    setup = make_setup(steady(30.0, 400.0), prefill=1, decode=1)
    policy = Tandem()

    report = simulate(setup, policy, Scenario(pools=(), cold_start=ColdStart(20.0, 0.2)))

    grown = report.moments[-1].asked
    assert grown[Role.PREFILL] > 1
    late = [m.queued for m in report.moments if m.at_s > 200.0]
    assert max(late) <= 2
    assert len(policy.decisions) == len(report.moments)


def test_an_edited_spec_holds_from_the_moment_of_the_edit() -> None:
    setup = make_setup(steady(5.0, 60.0))
    run = Simulation(Scenario(pools=(setup,)), {"pool": Static(setup.start)})
    run.edit("pool", make_spec(ttft_s=1e-6), at_s=30.0)

    report = run.run()["pool"]

    assert 0.4 < report.attainment < 0.6


faults = st.lists(
    st.one_of(
        st.builds(PodLoss, st.floats(0.0, 30.0), st.sampled_from(Role)),
        st.builds(
            SlowPod,
            st.floats(0.0, 9.0),
            st.floats(10.0, 20.0),
            st.sampled_from(Role),
            st.floats(1.0, 4.0),
        ),
        st.builds(MetricsGone, st.floats(0.0, 9.0), st.floats(10.0, 20.0)),
        st.builds(CapacityBlocked, st.floats(0.0, 9.0), st.floats(10.0, 20.0)),
    ),
    max_size=3,
)
routers = st.builds(
    QueueSettings,
    order=st.sampled_from(Order),
    spread=st.sampled_from(Spread),
    requests_per_prefill_pod=st.sampled_from([None, 1, 4]),
    overflow=st.booleans(),
    decode_gate=st.booleans(),
)
plans = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=5)


def small_run(
    seed: int, asked: list[tuple[int, int]], router: QueueSettings, mishaps: list[object]
) -> tuple[PoolReport, Simulation]:
    profile = replace(ENGINE, kv_capacity_tokens=12_000)
    setup = make_setup(
        steady(12.0, 15.0, seed=seed), profile=profile, router=router, faults=tuple(mishaps)
    )
    scenario = Scenario(
        pools=(setup,),
        cold_start=ColdStart(6.0, 0.5),
        gpus=7,
        faults=tuple(f for f in mishaps if isinstance(f, CapacityBlocked)),
        seed=seed,
    )
    run = Simulation(scenario, {"pool": Plan(*asked)})
    return run.run()["pool"], run


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), asked=plans, router=routers, mishaps=faults)
def test_no_request_is_lost_whatever_happens(
    seed: int, asked: list[tuple[int, int]], router: QueueSettings, mishaps: list[object]
) -> None:
    report, run = small_run(seed, asked, router, mishaps)
    again, _ = small_run(seed, asked, router, mishaps)

    pool = run.pool("pool")
    answered = [f for f in pool.ended if f.ending == "answered"]
    assert report.requests == report.completed + report.failed
    assert report.unfinished == 0
    assert sorted(f.number for f in pool.ended) == list(range(report.requests))
    assert report.good + report.late_ttft + report.late_tpot >= report.completed
    assert all(f.made == f.request.output_tokens for f in answered)
    assert run.cluster.most_held <= 7
    assert all(
        pod.engine.requests == 0
        for fleet in (pool.prefill, pool.decode)
        for pod in (*fleet.pods, *fleet.gone)
    )
    assert again == report
