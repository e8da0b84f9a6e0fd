"""Things that happen to pools, each with what must come of it. The live core decides."""

import itertools
from dataclasses import replace
from typing import NamedTuple

import pytest

from tandem_operator.core.decision import Reason
from tandem_operator.core.observation import Observation, PodPhase
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.cluster.faults import (
    CapacityBlocked,
    Fault,
    MetricsGone,
    SlowPod,
    SlowStarts,
)
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.engines.profile import EngineProfile, straight_profile
from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.policy import EPOCH_S, PolicyAnswer, Tandem
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.routing.router_queue import QueueSettings, Spread
from tandem_operator.sim.simulate import Scenario, Simulation
from tandem_operator.sim.traces.generate import Lengths, Mix, Rate, constant, poisson, ramp, step
from tandem_operator.sim.traces.trace import Trace, in_order, joined
from tests.simulation.stories import CHAT, QUICK, attainment, long_known
from tests.unit.core.scene import make_spec

SPEC = replace(
    make_spec(ttft_s=0.8, tpot_s=0.02, high=12, stabilization_s=10.0), max_model_len=32_768
)
STARTS = ColdStart(40.0, 0.1)
TWO_EACH = dict.fromkeys(Role, 2)


def load(rate: Rate, span_s: float, *, mix: Mix = CHAT, most_rps: float = 40.0) -> Trace:
    return poisson("load", rate, most_rps=most_rps, span_s=span_s, mix=mix, seed=11)


def after(first: Trace, then: Trace) -> Trace:
    """Return one load, and another when it is over."""
    begin_s = first.span_s
    later = tuple(replace(r, at_s=r.at_s + begin_s) for r in then.requests)
    return joined("shift", [first, replace(then, requests=later)])


class Ailing(Tandem):
    """Sees one pod of each role fail from `at_s` on, as on a node whose GPU is broken."""

    def __init__(self, *, at_s: float) -> None:
        super().__init__(long_known().memory)
        self._at_s = at_s
        self._sick: tuple[str, ...] = ()

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        if now_s - EPOCH_S < self._at_s:
            return super().tick(spec, observation, now_s)
        pods = observation.pods
        if not self._sick:
            self._sick = tuple(next(p.name for p in pods if p.role is role) for role in Role)
        seen = replace(
            observation,
            pods=tuple(
                replace(
                    pod,
                    phase=PodPhase.STARTING,
                    ready_s=None,
                    problem="Crashing",
                    unready_s=EPOCH_S + self._at_s,
                )
                if pod.name in self._sick
                else pod
                for pod in pods
            ),
            engines=tuple(e for e in observation.engines if e.pod not in self._sick),
        )
        return super().tick(spec, seen, now_s)


class Played(NamedTuple):
    report: PoolReport
    policy: Tandem
    ended: list[SimulatedFlight]


def play(
    trace: Trace,
    *,
    spec: PoolSpec = SPEC,
    faults: tuple[Fault, ...] = (),
    starts: ColdStart = STARTS,
    gpus: int | None = None,
    start: dict[Role, int] = TWO_EACH,
    engine: EngineProfile = QUICK,
    policy: Tandem | None = None,
) -> Played:
    policy = long_known() if policy is None else policy
    setup = PoolSetup(
        name="pool", spec=spec, trace=trace, profile=engine, start=start, faults=faults
    )
    scenario = Scenario(
        pools=(setup,),
        cold_start=starts,
        gpus=gpus,
        faults=tuple(f for f in faults if isinstance(f, CapacityBlocked | SlowStarts)),
    )
    run = Simulation(scenario, {"pool": policy})
    return Played(run.run()["pool"], policy, run.pool("pool").ended)


def asked(report: PoolReport, role: Role, at_s: float) -> int:
    """Return the desired replicas at the last tick until `at_s`."""
    return [m.asked[role] for m in report.moments if m.at_s <= at_s][-1]


def most(report: PoolReport, role: Role, begin_s: float, end_s: float) -> int:
    """Return the highest desired count of a time."""
    return max(m.asked[role] for m in report.moments if begin_s <= m.at_s <= end_s)


def test_a_burst_of_three_times_the_load_costs_one_start_and_no_more() -> None:
    report, _, ended = play(load(step(6.0, 18.0, at_s=200.0), 500.0))

    # One tick sees it, the next confirms it: half a minute tells a rate from a glitch.
    assert asked(report, Role.PREFILL, 215.0) > asked(report, Role.PREFILL, 199.0)
    for role in Role:
        needed = asked(report, role, 500.0)
        assert asked(report, role, 230.0) >= needed - 1
        assert most(report, role, 200.0, 500.0) <= needed + 2
    assert attainment(ended, 20.0, 200.0, slo=SPEC.slo) >= 0.95
    assert attainment(ended, 280.0, 500.0, slo=SPEC.slo) >= 0.95


def test_a_slow_ramp_is_ridden_without_a_dip_and_without_a_step_back() -> None:
    report, _, ended = play(load(ramp(4.0, 24.0, begin_s=120.0, end_s=720.0), 840.0))

    assert attainment(ended, 120.0, 840.0, slo=SPEC.slo) >= 0.97
    for begin_s in range(120, 840, 120):
        assert attainment(ended, begin_s, begin_s + 120, slo=SPEC.slo) >= 0.93
    for role in Role:
        path = [m.asked[role] for m in report.moments if 150.0 <= m.at_s <= 720.0]
        falls = sum(1 for a, b in itertools.pairwise(path) if b < a)
        assert path[-1] > path[0]
        assert falls <= 1


def test_longer_prompts_at_the_same_rate_grow_prefill_alone() -> None:
    long = replace(CHAT, prompt=Lengths(4500, 0.4, 16, 16_000))

    report, _, ended = play(
        after(load(constant(8.0), 240.0), load(constant(8.0), 600.0, mix=long)),
        start={Role.PREFILL: 1, Role.DECODE: 1},
    )

    assert asked(report, Role.PREFILL, 500.0) > asked(report, Role.PREFILL, 235.0)
    assert asked(report, Role.DECODE, 500.0) == asked(report, Role.DECODE, 235.0)
    assert attainment(ended, 340.0, 840.0, slo=SPEC.slo) >= 0.95


def test_longer_answers_at_the_same_rate_grow_decode_alone() -> None:
    long = replace(CHAT, output=Lengths(300, 0.4, 2, 1000))

    report, _, ended = play(after(load(constant(8.0), 240.0), load(constant(8.0), 300.0, mix=long)))

    assert asked(report, Role.DECODE, 500.0) > asked(report, Role.DECODE, 235.0)
    assert asked(report, Role.PREFILL, 500.0) <= asked(report, Role.PREFILL, 235.0)
    assert attainment(ended, 340.0, 540.0, slo=SPEC.slo) >= 0.95


def test_a_prefix_cache_that_stops_to_hit_grows_prefill_within_twenty_seconds() -> None:
    mix = replace(CHAT, prompt=Lengths(4096))
    trace = load(constant(8.0), 600.0, mix=mix)
    # The same system prompt for all, and from one moment on another for each.
    requests = tuple(
        replace(r, blocks=tuple(range(7)) if r.at_s < 300.0 else tuple(range(i * 8, i * 8 + 7)))
        for i, r in enumerate(trace.requests)
    )

    report, _, ended = play(
        replace(trace, requests=requests), start={Role.PREFILL: 1, Role.DECODE: 1}
    )

    assert asked(report, Role.PREFILL, 295.0) == 1
    # Noticed long before a pod could have started, and mended by the first one that did.
    assert asked(report, Role.PREFILL, 320.0) > 1
    assert asked(report, Role.DECODE, 400.0) == asked(report, Role.DECODE, 295.0)
    assert attainment(ended, 420.0, 600.0, slo=SPEC.slo) >= 0.95


def test_long_prompts_that_stop_to_hit_grow_prefill_though_short_ones_never_did() -> None:
    short = load(constant(16.0), 320.0, mix=replace(CHAT, prompt=Lengths(256)))
    long = load(constant(6.0), 320.0, mix=replace(CHAT, prompt=Lengths(4096)))
    # The long ones have the same system prompt, and from one moment on another each.
    repeated = tuple(
        replace(r, blocks=tuple(range(7)) if r.at_s < 300.0 else tuple(range(i * 8, i * 8 + 7)))
        for i, r in enumerate(long.requests)
    )
    both = replace(long, requests=in_order([*short.requests, *repeated]))

    report, *_ = play(both, start={Role.PREFILL: 1, Role.DECODE: 1})

    assert asked(report, Role.PREFILL, 295.0) == 1
    assert asked(report, Role.PREFILL, 320.0) > 1


@pytest.mark.parametrize("fault", ["prompts without a common part", "caches that keep nothing"])
def test_hits_that_end_at_pods_chosen_by_prefix_grow_prefill_within_twenty_seconds(
    fault: str,
) -> None:
    ends_s, router_is_told = 360.0, fault.startswith("prompts")
    trace = load(constant(36.0), 384.0, mix=replace(CHAT, prompt=Lengths(4096)))
    # Two dozen system prompts, so each is at one of the pods.
    requests = tuple(
        replace(r, blocks=tuple(range(8 * whose, 8 * whose + 7)))
        for i, r in enumerate(trace.requests)
        for whose in [i if router_is_told and r.at_s >= ends_s else i % 24]
    )
    setup = PoolSetup(
        name="pool",
        spec=SPEC,
        trace=replace(trace, requests=requests),
        profile=QUICK,
        start=TWO_EACH,
        router=QueueSettings(spread=Spread.PREFIX),
    )
    run = Simulation(Scenario(pools=(setup,), cold_start=STARTS), {"pool": long_known()})

    def lose() -> None:
        for pod in run.pool("pool").prefill.pods:
            pod.engine.cache = None

    if not router_is_told:
        run.clock.at(ends_s, lose)
    report = run.run()["pool"]

    before = asked(report, Role.PREFILL, ends_s)
    assert before == most(report, Role.PREFILL, ends_s - 60.0, ends_s) >= 2
    assert most(report, Role.PREFILL, ends_s, ends_s + 20.0) > before
    hits = {
        late: sum(
            flight.cached_tokens
            for flight in run.pool("pool").ended
            if (flight.request.at_s >= ends_s + 5.0) is late
        )
        for late in (False, True)
    }
    assert hits[True] == 0 < hits[False]


# No other pod mends the steps of a decode pod that is too slow for one stream.
@pytest.mark.parametrize(("role", "factor"), [(Role.PREFILL, 5.0), (Role.DECODE, 1.7)])
def test_a_slow_pod_is_made_up_for_by_its_own_role(role: Role, factor: float) -> None:
    slow = SlowPod(200.0, 500.0, role, factor)

    report, _, ended = play(load(constant(12.0), 500.0), faults=(slow,))

    assert most(report, role, 200.0, 300.0) > asked(report, role, 199.0)
    assert most(report, role.other, 200.0, 500.0) <= asked(report, role.other, 199.0)
    assert attainment(ended, 300.0, 500.0, slo=SPEC.slo) >= 0.95


def test_long_cold_starts_are_looked_ahead_for() -> None:
    trace = load(ramp(4.0, 24.0, begin_s=120.0, end_s=1320.0), 1400.0)

    *_, ended = play(trace, starts=ColdStart(200.0, 0.1))

    assert attainment(ended, 120.0, 1400.0, slo=SPEC.slo) >= 0.97


def test_cold_starts_that_become_five_times_as_long_are_waited_for_and_learned() -> None:
    slow = SlowStarts(300.0, 5000.0, factor=5.0)

    _, policy, ended = play(
        load(ramp(4.0, 24.0, begin_s=120.0, end_s=1320.0), 1400.0), faults=(slow,)
    )

    assert policy.decisions[-1].inputs["cold_start_prefill_s"] >= 150.0
    assert attainment(ended, 120.0, 300.0, slo=SPEC.slo) >= 0.95
    # The first slow start is a surprise; the ones after it are not.
    assert attainment(ended, 900.0, 1400.0, slo=SPEC.slo) >= 0.97


def test_a_jump_is_answered_by_the_first_tick_that_sees_it() -> None:
    _, policy, _ = play(load(step(8.0, 26.0, at_s=300.0), 340.0))

    grown = (
        decision.at_s - EPOCH_S
        for decision in policy.decisions
        if any(plan.to > plan.current for plan in decision.roles.values())
    )
    assert next(at_s for at_s in grown if at_s > 300.0) == 305.0


def test_ten_minutes_without_metrics_change_nothing_though_the_load_grew() -> None:
    gone = MetricsGone(200.0, 800.0)

    _, policy, ended = play(load(step(6.0, 18.0, at_s=400.0), 1100.0), faults=(gone,))

    # The last metrics stay usable for half a minute.
    blind = [d for d in policy.decisions if 200.0 < d.at_s - EPOCH_S < 800.0]
    assert all(plan.to == plan.current for d in blind for plan in d.roles.values())
    assert all(r.reason is Reason.STALE_METRICS for d in blind[8:] for r in d.roles.values())
    assert attainment(ended, 950.0, 1100.0, slo=SPEC.slo) >= 0.95


def test_a_cluster_without_room_is_named_and_not_asked_again_and_again() -> None:
    full = CapacityBlocked(90.0, 300.0)

    report, policy, ended = play(load(step(6.0, 30.0, at_s=100.0), 500.0), faults=(full,))

    stuck = [d for d in policy.decisions if 135.0 <= d.at_s - EPOCH_S < 280.0]
    assert all("Unschedulable" in (d.capacity_blocked or "") for d in stuck)
    for role in Role:
        assert len({d.roles[role].to for d in stuck}) == 1
        assert stuck[0].roles[role].to > asked(report, role, 99.0)
    assert policy.decisions[-1].capacity_blocked is None
    assert attainment(ended, 380.0, 500.0, slo=SPEC.slo) >= 0.95


def test_two_pools_live_on_the_gpus_of_one_cluster() -> None:
    early = load(step(14.0, 3.0, at_s=250.0), 600.0)
    late = load(step(3.0, 14.0, at_s=300.0), 600.0)
    setups = tuple(
        PoolSetup(name=name, spec=SPEC, trace=trace, profile=QUICK, start=TWO_EACH)
        for name, trace in (("early", early), ("late", late))
    )
    run = Simulation(
        Scenario(pools=setups, cold_start=STARTS, gpus=9),
        {setup.name: Tandem() for setup in setups},
    )

    reports = run.run()

    assert run.cluster.most_held <= 9
    assert all(r.unfinished == 0 and r.failed == 0 for r in reports.values())
    assert attainment(run.pool("early").ended, 20.0, 600.0, slo=SPEC.slo) >= 0.95
    assert attainment(run.pool("late").ended, 450.0, 600.0, slo=SPEC.slo) >= 0.95


def test_twice_the_traffic_on_engines_twice_as_quick_gets_the_same_fleet() -> None:
    quick = straight_profile(
        "twice as quick",
        prefill=(0.005, 2e-5),
        step=(0.004, 2e-4, 0.0),
        kv_capacity_tokens=400_000,
        max_num_seqs=64,
    )
    slo = replace(SPEC.slo, ttft_s=SPEC.slo.ttft_s / 2.0, tpot_s=SPEC.slo.tpot_s / 2.0)

    plain, *_ = play(load(step(5.0, 10.0, at_s=150.0), 360.0))
    twice, *_ = play(
        load(step(10.0, 20.0, at_s=150.0), 360.0), spec=replace(SPEC, slo=slo), engine=quick
    )

    for role in Role:
        # Chance is less in more requests: never more replicas, and about as many.
        counts = [
            sum(m.asked[role] for m in report.moments) / len(report.moments)
            for report in (plain, twice)
        ]
        assert counts[1] <= counts[0] + 0.25
        assert counts[1] >= 0.75 * counts[0]


def test_one_sick_pod_of_each_role_is_stood_in_for_and_keeps_no_other_from_starting() -> None:
    """Load triples half a minute after the pods fell ill."""
    three_each = dict.fromkeys(Role, 3)
    spec = replace(SPEC, roles={r: replace(SPEC.roles[r], min_replicas=3) for r in Role})
    played = play(
        load(step(20.0, 60.0, at_s=150.0), 400.0, most_rps=60.0),
        policy=Ailing(at_s=120.0),
        spec=spec,
        start=three_each,
    )

    for role in Role:
        assert asked(played.report, role, 118.0) == 3
        assert asked(played.report, role, 148.0) == 4
        assert asked(played.report, role, 220.0) >= 6
    assert any(d.sentence.endswith("Tandem starts another pod") for d in played.policy.decisions)
    assert attainment(played.ended, 250.0, 400.0, slo=spec.slo) >= 0.95
