"""Baselines follow their published rules: each rule with numbers worked out by hand."""

from dataclasses import replace

import pytest

from tandem_operator.core.observation import (
    ArrivalSecond,
    EngineSample,
    FinishedSecond,
    Latency,
    Observation,
    PodPhase,
    PodState,
    Quantiles,
    RouterReport,
)
from tandem_operator.core.role import Role
from tandem_operator.sim.baselines.clairvoyant import Clairvoyant
from tandem_operator.sim.baselines.dynamo import Dynamo, DynamoSettings
from tandem_operator.sim.baselines.grid import static_grid
from tandem_operator.sim.baselines.hpa import Hpa, HpaSettings, RatePolicy, Rules, keda
from tandem_operator.sim.baselines.signals import Signal
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.engines.profile import straight_profile
from tandem_operator.sim.policy import EPOCH_S, Static
from tandem_operator.sim.simulate import Scenario, simulate
from tandem_operator.sim.traces.generate import Lengths, Mix, poisson, sine
from tests.unit.sim.setups import CHAT, ENGINE, counts, make_setup, make_spec, of, steady

pytestmark = pytest.mark.simulates

SPEC = make_spec(most=30)


def seen(
    prefill: int = 2,
    decode: int = 2,
    *,
    queued: int = 0,
    running: float = 0.0,
    waiting: float = 0.0,
    ttft_p95_s: float | None = None,
    starting: int = 0,
    kv_tokens: float = 0.0,
) -> Observation:
    pods, engines = [], []
    for role, count in counts(prefill, decode).items():
        for i in range(count):
            ready = role is Role.DECODE or i < count - starting
            phase = PodPhase.READY if ready else PodPhase.STARTING
            pods.append(PodState(f"{role}-{i}", role, "r1", phase, EPOCH_S))
            if ready:
                engines.append(
                    EngineSample(
                        f"{role}-{i}",
                        role,
                        EPOCH_S,
                        running=running,
                        waiting=waiting,
                        kv_usage_ratio=kv_tokens / 1e6,
                        kv_capacity_tokens=1e6,
                    )
                )
    report = RouterReport("router", EPOCH_S, EPOCH_S, (), (), (), queued, 100 * queued, 0, 0, ())
    return Observation(
        replicas=counts(prefill, decode),
        pods=tuple(pods),
        engines=tuple(engines),
        routers=(report,),
        router_pods=1,
        latency=Latency(EPOCH_S, Quantiles(p95_s=ttft_p95_s), Quantiles()),
    )


def hpa(signal: Signal, prefill: float, decode: float, **rules: Rules) -> Hpa:
    target = {Role.PREFILL: prefill, Role.DECODE: decode}
    return Hpa("hpa", HpaSettings(signal=signal, target=target, **rules))


def asked(policy: Hpa | Dynamo, observation: Observation, at_s: float = 0.0) -> tuple[int, int]:
    replicas = policy.tick(SPEC, observation, EPOCH_S + at_s).replicas
    return replicas[Role.PREFILL], replicas[Role.DECODE]


@pytest.mark.parametrize(
    ("queued", "wanted"),
    [(10, 5), (4, 2), (5, 3), (1, 2)],
    ids=["grows", "is at target", "is past tolerance", "waits to shrink"],
)
def test_a_total_is_divided_by_its_target_per_replica(queued: int, wanted: int) -> None:
    assert asked(hpa(Signal.QUEUE, 2.0, 2.0), seen(queued=queued))[0] == wanted


def test_within_tolerance_nothing_changes() -> None:
    policy = hpa(Signal.CONCURRENCY, 10.0, 10.0)

    assert asked(policy, seen(10, 2, running=10.9))[0] == 10
    assert asked(policy, seen(10, 2, running=11.2))[0] == 12


def test_a_metric_exactly_at_the_edge_of_the_tolerance_changes_nothing() -> None:
    policy = hpa(Signal.QUEUE, 10.0, 10.0)

    assert asked(policy, seen(1, 2, queued=11))[0] == 1
    assert asked(hpa(Signal.LATENCY, 0.5, 0.02), seen(4, 2, ttft_p95_s=0.55))[0] == 4


def test_a_latency_scales_the_ready_pods_by_its_ratio() -> None:
    policy = hpa(Signal.LATENCY, 0.5, 0.02)

    assert asked(policy, seen(4, 2, ttft_p95_s=0.9, starting=1))[0] == 6


def test_a_missing_metric_changes_nothing() -> None:
    policy = hpa(Signal.LATENCY, 0.5, 0.02)

    assert asked(policy, seen(4, 3, ttft_p95_s=None)) == (4, 3)


NO_HASTE = Rules(0.0, (RatePolicy(15.0, percent=100.0),))


def silent(observation: Observation, count: int) -> Observation:
    """Return the same, but for metrics of the first prefill pods."""
    return replace(observation, engines=observation.engines[count:])


@pytest.mark.parametrize(
    ("queued", "missing", "wanted"),
    [
        (4, 0, 1),
        # Three pods at their target of ten besides.
        (4, 3, 4),
        (8, 2, 3),
        # Growth counts on nothing from them.
        (80, 3, 8),
    ],
)
def test_pods_without_metrics_count_as_at_their_target_before_anything_shrinks(
    queued: int, missing: int, wanted: int
) -> None:
    policy = hpa(Signal.QUEUE, 10.0, 10.0, down=NO_HASTE)

    assert asked(policy, silent(seen(4, 2, queued=queued), missing))[0] == wanted


def test_a_role_whose_pods_are_all_silent_keeps_its_count() -> None:
    policy = hpa(Signal.CONCURRENCY, 10.0, 10.0, down=NO_HASTE)
    observation = replace(seen(4, 3, running=9.0), engines=())

    assert asked(policy, observation) == (4, 3)


def test_five_minutes_of_agreement_begin_with_the_first_sync_with_metrics_or_without() -> None:
    policy = hpa(Signal.LATENCY, 0.5, 0.02)

    held = [asked(policy, seen(4, 2), 15.0 * i)[0] for i in range(20)]

    assert set(held) == {4}
    assert asked(policy, seen(4, 2, ttft_p95_s=0.1), 300.0)[0] == 1


def test_growth_is_held_to_doubling_or_four_pods_in_fifteen_seconds() -> None:
    policy = hpa(Signal.QUEUE, 1.0, 1.0)

    assert asked(policy, seen(2, 2, queued=1000))[0] == 6
    assert asked(policy, seen(6, 2, queued=1000), 5.0)[0] == 6
    assert asked(policy, seen(6, 2, queued=1000), 15.0)[0] == 12


def test_shrinking_waits_for_five_minutes_of_agreement() -> None:
    policy = hpa(Signal.QUEUE, 1.0, 1.0)
    asked(policy, seen(8, 2, queued=8))

    held = [asked(policy, seen(8, 2, queued=2), 15.0 * i)[0] for i in range(1, 20)]

    assert set(held) == {8}
    assert asked(policy, seen(8, 2, queued=2), 300.0)[0] == 2


def test_rate_policies_bound_shrinking_too() -> None:
    slow = Rules(0.0, (RatePolicy(60.0, pods=1),))
    policy = hpa(Signal.QUEUE, 1.0, 1.0, down=slow)

    assert asked(policy, seen(8, 2, queued=1))[0] == 7
    assert asked(policy, seen(7, 2, queued=1), 30.0)[0] == 7
    assert asked(policy, seen(7, 2, queued=1), 60.0)[0] == 6


def test_keda_counts_what_waits_and_what_runs() -> None:
    policy = keda({Role.PREFILL: 2.0, Role.DECODE: 50.0})

    assert asked(policy, seen(2, 2, queued=4, running=1.0, waiting=1.0)) == (4, 2)


def test_what_decode_pods_hold_back_in_the_router_scales_decode_and_not_prefill() -> None:
    policy = hpa(Signal.QUEUE, 10.0, 10.0)
    observation = seen(2, 2, queued=80)
    (report,) = observation.routers
    held = replace(report, held_prompt_tokens=report.queued_prompt_tokens // 2)

    assert asked(policy, replace(observation, routers=(held,))) == (4, 4)


def test_dynamos_throughput_loop_fills_engines_with_the_mean_of_its_window() -> None:
    trace = steady(20.0, 260.0)
    setup = make_setup(trace, prefill=1, decode=1, spec=SPEC)

    report = simulate(setup, Dynamo(ENGINE, DynamoSettings(throughput_s=60.0)))

    prompts = sum(r.prompt_tokens for r in trace.requests) / len(trace.requests)
    batch = int(8192 / prompts)
    rps = batch / ENGINE.work_s(batch * prompts)
    assert report.moments[-1].asked[Role.PREFILL] == -(-20.0 // rps)


def test_dynamos_load_loop_adds_one_only_when_every_engine_is_over_its_bound() -> None:
    policy = Dynamo(ENGINE, DynamoSettings(throughput_s=None, load_s=5.0))
    crowded = seen(2, 2, running=8.0, kv_tokens=60_000.0)

    answers = [asked(policy, crowded, 5.0 * i)[0] for i in range(6)]

    # 60,000 tokens need eight passes, 1.2 s against a bound of 0.5 s.
    assert answers == [2, 2, 2, 2, 3, 3]
    one_idle = replace(
        crowded, engines=(*crowded.engines[1:], replace(crowded.engines[0], kv_usage_ratio=0.0))
    )
    assert asked(policy, one_idle, 40.0)[0] == 2


@pytest.mark.parametrize(
    ("mix", "tpot_s", "role"),
    [
        (CHAT, 0.02, Role.PREFILL),
        (Mix(Lengths(200), Lengths(400)), 0.006, Role.DECODE),
    ],
)
def test_dynamos_load_loop_sees_a_queue_that_the_router_holds(
    mix: Mix, tpot_s: float, role: Role
) -> None:
    setup = make_setup(
        steady(60.0, 100.0, mix=mix), prefill=1, decode=1, spec=make_spec(most=30, tpot_s=tpot_s)
    )
    policy = Dynamo(ENGINE, DynamoSettings(throughput_s=None, load_s=5.0))

    report = simulate(setup, policy, Scenario(pools=(), cold_start=ColdStart(20.0)))

    # One is too few for 60 requests/s of either kind, and what waits does so in the router.
    assert max(moment.asked[role] for moment in report.moments) >= 3


def test_dynamos_load_loop_counts_the_cache_that_queued_requests_will_hold() -> None:
    policy = Dynamo(ENGINE, DynamoSettings(throughput_s=None, load_s=5.0))
    second = int(EPOCH_S) - 5
    ended = FinishedSecond(second, 10, 10, 0, 0, 0, 0, 0, 1000, 100_000, {})
    crowded = seen(2, 2, running=10.0, waiting=300.0)
    report = replace(
        crowded.routers[0],
        started_s=EPOCH_S - 60.0,
        arrivals=(ArrivalSecond(second, (10,), (20_000,), 0),),
        finished=(ended,),
    )

    answers = [asked(policy, replace(crowded, routers=(report,)), 5.0 * i)[1] for i in range(5)]

    # A step of 310 takes 10 ms, and 18 ms more with 300 prompts of 2,000 tokens; the bound is 20.
    assert answers == [2, 2, 2, 2, 3]


def test_dynamos_load_loop_waits_while_a_pod_starts() -> None:
    policy = Dynamo(ENGINE, DynamoSettings(throughput_s=None, load_s=5.0))
    crowded = seen(3, 2, running=8.0, kv_tokens=60_000.0, starting=1)

    assert {asked(policy, crowded, 5.0 * i)[0] for i in range(9)} == {3}


def test_the_clairvoyant_has_pods_ready_when_the_work_comes() -> None:
    calm = [(float(i), 1000, 10) for i in range(0, 120, 2)]
    busy = [(120.0 + i / 60.0, 1000, 10) for i in range(60 * 30)]
    trace = of(*calm, *busy)
    setup = make_setup(trace, prefill=1, decode=1, spec=SPEC)
    scenario = Scenario(pools=(), cold_start=ColdStart(30.0))

    report = simulate(setup, Clairvoyant(trace, ENGINE, SPEC, start_s=30.0), scenario)

    first = next(m for m in report.moments if m.asked[Role.PREFILL] > 1)
    assert 80.0 <= first.at_s <= 90.0
    # The rule looks forward only, so it lets go while the last seconds still come.
    assert report.attainment > 0.93
    assert report.moments[10].asked == counts(1, 1)


def test_a_clairvoyant_beats_the_best_static_fleet_on_a_trace_that_varies() -> None:
    engine = straight_profile(
        "slow", prefill=(0.02, 1e-4), step=(0.004, 2e-5, 3e-8), kv_capacity_tokens=100_000
    )
    trace = poisson(
        "wave", sine(1.0, 15.0, period_s=200.0), most_rps=15.0, span_s=200.0, mix=CHAT, seed=1
    )
    setup = make_setup(trace, spec=make_spec(ttft_s=1.5, most=30), profile=engine)
    scenario = Scenario(pools=(), cold_start=ColdStart(20.0))

    grid = static_grid(setup, scenario, prefill=range(2, 6), decode=[1])
    seer = Clairvoyant(trace, engine, setup.spec, start_s=20.0)
    seen_ahead = simulate(replace(setup, start=counts(1, 1)), seer, scenario)

    assert grid.best is not None
    assert grid.best.attainment >= 0.95
    assert seen_ahead.attainment >= 0.95
    assert seen_ahead.good_per_gpu_s > grid.best.good_per_gpu_s


def test_the_grid_finds_the_cheapest_fleet_that_is_enough() -> None:
    setup = make_setup(steady(30.0, 60.0))
    scenario = Scenario(pools=())

    grid = static_grid(setup, scenario, prefill=range(1, 5), decode=range(1, 4))

    assert grid.best is not None
    every = [
        simulate(replace(setup, start=counts(p, d)), Static(counts(p, d)), scenario)
        for p in range(1, 5)
        for d in range(1, 4)
    ]
    cheapest = min(r.gpu_hours for r in every if r.attainment >= 0.95)
    assert grid.best.gpu_hours == cheapest
    assert len(grid.reports) < len(every)
    attained = [r.attainment for r in grid.frontier]
    assert attained == sorted(attained)
