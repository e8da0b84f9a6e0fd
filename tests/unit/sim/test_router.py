"""Overflow and the gate in whole runs: help where there is slack, and TPOT kept for all inside."""

from collections import Counter
from dataclasses import replace

import pytest

from tandem_operator.core.observation import Observation
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_speed import TimedDecodePace
from tandem_operator.core.slo import Slo, SloClass
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.cluster.faults import PodLoss
from tandem_operator.sim.engines.profile import straight_profile
from tandem_operator.sim.flight import found, judge
from tandem_operator.sim.policy import ForRouter, PolicyAnswer, Static
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.routing.router_queue import Order, QueueSettings, Spread
from tandem_operator.sim.simulate import Scenario, Simulation, simulate
from tandem_operator.sim.traces.trace import Trace, TraceRequest, of_class
from tandem_routing.verdict import Ending
from tests.unit.sim.setups import make_setup, make_spec, of, small_kv, steady

FRUGAL = QueueSettings(requests_per_prefill_pod=2, overflow=False, decode_gate=False)


def finished(setup: PoolSetup) -> Simulation:
    run = Simulation(Scenario(pools=(setup,)), {"pool": Static(setup.start)})
    run.run()
    return run


def test_a_request_overflows_only_where_prefill_would_be_late() -> None:
    # Each takes 125 ms of prefill; the bound is half a second.
    calm = of(*((float(n), 6000, 20) for n in range(6)))
    clump = of(*((0.0, 6000, 20) for _ in range(6)))
    router = replace(FRUGAL, overflow=True)

    none, some = (
        simulate(
            make_setup(trace, prefill=1, decode=2, router=router),
            Static({Role.PREFILL: 1, Role.DECODE: 2}),
        )
        for trace in (calm, clump)
    )

    assert none.overflowed == 0
    assert some.overflowed == 3
    assert some.good == 6


def test_overflow_leaves_the_streams_of_a_busy_decode_pod_their_tpot() -> None:
    # Sixty streams make a step of some 6 ms: too near to a bound of 7 for a prompt beside them.
    streams = [(0.0, 100, 1000) for _ in range(60)]
    clump = [(2.0, 6000, 20) for _ in range(14)]
    spec = make_spec(ttft_s=0.7, tpot_s=0.007)
    router = replace(FRUGAL, overflow=True)
    trace = of(*streams, *clump)

    setups = [make_setup(trace, prefill=2, decode=n, router=router, spec=spec) for n in (1, 4)]
    busy, roomy = (finished(setup).pool("pool") for setup in setups)

    assert not any(flight.overflowed for flight in busy.ended)
    assert any(flight.overflowed for flight in roomy.ended)
    for pool in (busy, roomy):
        assert not any(judge(flight, spec.slo).late_tpot for flight in pool.ended)


def test_a_request_that_overflows_waits_for_the_steps_of_its_pod() -> None:
    stream, clump = (0.0, 100, 300), [(0.5, 6000, 2) for _ in range(6)]
    setup = make_setup(of(stream, *clump), prefill=1, decode=1, router=FRUGAL)

    alone, with_overflow = (
        finished(replace(setup, router=replace(FRUGAL, overflow=overflow))).pool("pool")
        for overflow in (False, True)
    )

    def tpot_s(pool: object) -> float:
        (first,) = [each for each in pool.ended if each.number == 0]  # type: ignore[attr-defined]
        assert first.tpot_s is not None
        return float(first.tpot_s)

    moved = [flight for flight in with_overflow.ended if flight.overflowed]
    stretch_s = sum(flight.service_s for flight in moved) / 299
    assert moved
    assert tpot_s(with_overflow) - tpot_s(alone) == pytest.approx(stretch_s, rel=0.2)


@pytest.mark.parametrize("overflow", [False, True])
def test_without_a_prefill_pod_decode_pods_do_it_all(overflow: bool) -> None:
    trace = of(*((1.0 + n, 1000, 10) for n in range(5)))
    router = replace(FRUGAL, overflow=overflow)
    loss = PodLoss(0.5, Role.PREFILL)
    setup = make_setup(trace, prefill=1, decode=2, router=router, faults=(loss,))

    report = simulate(setup, Static({Role.PREFILL: 1, Role.DECODE: 2}))

    assert (report.good, report.overflowed) == (5, 5)


# A hundred streams make a step of 6 ms: 55 requests/s of 300 tokens.
FLAT = straight_profile(
    "flat", prefill=(0.005, 2e-5), step=(0.004, 2e-5, 0.0), kv_capacity_tokens=200_000
)


def overloaded_decode() -> Trace:
    return Trace("long", tuple(TraceRequest(n / 80.0, 200, 300) for n in range(1200)))


def test_the_gate_costs_the_excess_and_not_every_stream() -> None:
    spec = make_spec(tpot_s=0.006)
    setup = make_setup(
        overloaded_decode(), prefill=2, decode=1, spec=spec, profile=FLAT, router=FRUGAL
    )

    open_door, gated = (
        simulate(replace(setup, router=replace(FRUGAL, decode_gate=gate)), Static(setup.start))
        for gate in (False, True)
    )

    assert open_door.late_tpot > 0.5 * open_door.requests
    assert gated.late_tpot < 0.05 * gated.requests
    assert gated.good > 2 * open_door.good
    assert gated.completed == gated.requests


def test_no_request_waits_for_a_seat_after_prefill_with_the_gate() -> None:
    # Eight seats at 4.2 ms a step give 19 requests/s of 100 tokens.
    profile = replace(FLAT, max_num_seqs=8)
    trace = Trace("seats", tuple(TraceRequest(n / 30.0, 200, 100) for n in range(600)))
    setup = make_setup(trace, prefill=1, decode=1, profile=profile, router=FRUGAL)

    open_door, gated = (
        simulate(replace(setup, router=replace(FRUGAL, decode_gate=gate)), Static(setup.start))
        for gate in (False, True)
    )

    assert open_door.attainment < 0.1
    assert gated.attainment > 0.5
    assert gated.completed == gated.requests


def test_the_gate_lets_in_where_not_even_one_stream_could_keep_its_tpot() -> None:
    spec = make_spec(tpot_s=0.001)
    setup = make_setup(steady(20.0, 20.0), prefill=2, decode=1, spec=spec, router=FRUGAL)

    open_door, gated = (
        simulate(replace(setup, router=replace(FRUGAL, decode_gate=gate)), Static(setup.start))
        for gate in (False, True)
    )

    assert gated.ttft_s == open_door.ttft_s


def gated_setup(*, tpot_s: float = 0.006) -> PoolSetup:
    """Return too many streams for the one decode pod, and the gate in front of it."""
    return make_setup(
        overloaded_decode(),
        prefill=2,
        decode=1,
        spec=make_spec(tpot_s=tpot_s),
        profile=FLAT,
        router=replace(FRUGAL, decode_gate=True),
    )


class Teller(Static):
    """Tells the router `pace` at the first tick."""

    def __init__(self, setup: PoolSetup, pace: TimedDecodePace | None) -> None:
        super().__init__(setup.start)
        self._told = ForRouter(pace)

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        return replace(super().tick(spec, observation, now_s), for_router=self._told)


@pytest.mark.parametrize(
    ("pace", "late"),
    [
        # As it is; half as fast; not known; twice as fast.
        (TimedDecodePace((0.004, 2e-5, 0.0), 200_000.0, 256), (0.0, 0.05)),
        (TimedDecodePace((0.008, 4e-5, 0.0), None, 256), (0.5, 1.0)),
        (None, (0.5, 1.0)),
        (TimedDecodePace((0.002, 1e-5, 0.0), 200_000.0, 256), (0.5, 1.0)),
    ],
)
def test_the_gate_goes_by_what_the_router_is_told(
    pace: TimedDecodePace | None, late: tuple[float, float]
) -> None:
    setup = gated_setup()
    # Before the first tick the router knows the engines: the load begins after it.
    later = tuple(replace(each, at_s=each.at_s + 6.0) for each in setup.trace.requests)
    setup = replace(setup, trace=replace(setup.trace, requests=later))

    report = simulate(setup, Teller(setup, pace))

    least, most = late
    assert least <= report.late_tpot / report.requests <= most


def test_a_wait_that_decode_is_to_blame_for_is_decode_admission() -> None:
    setup = gated_setup()

    pool = finished(setup).pool("pool")
    blame = Counter[str]()
    for each in pool.ledger.finished(max(f.end_s or 0.0 for f in pool.ended)):
        blame.update(each.blame)

    assert set(blame) == {"decode_admission"}
    late = [f for f in pool.ended if judge(f, setup.spec.slo).late_ttft]
    assert late
    for flight in late:
        parts = found(flight, setup.spec.slo).parts
        assert sum(parts.values()) == pytest.approx(flight.ttft_s)
        assert parts["decode_admission"] > parts["router_queue"]


def test_a_request_without_a_chance_of_a_first_token_in_time_is_shed_and_not_sent() -> None:
    clump = of(*((0.0, 6000, 20) for _ in range(40)))
    router = replace(FRUGAL, first_token_s=1.5)

    patient, hasty = (
        simulate(
            make_setup(clump, prefill=1, decode=1, router=each),
            Static({Role.PREFILL: 1, Role.DECODE: 1}),
        )
        for each in (FRUGAL, router)
    )

    assert (patient.failed, patient.completed) == (0, 40)
    # Each takes an eighth of a second: twelve would be begun by then, the last ones in vain.
    assert 40 - 12 <= hasty.failed <= 40 - 6
    assert hasty.completed + hasty.failed == 40
    assert hasty.good == patient.good


def test_a_class_waits_for_as_long_as_its_bound() -> None:
    batch = SloClass("batch", Slo(60.0, 0.0, 1.0, 0.5), guaranteed=False)
    spec = replace(make_spec(), classes=(SloClass("default", make_spec().slo), batch))
    clump = of_class(of(*((0.0, 6000, 20) for _ in range(40))), "batch")
    router = replace(FRUGAL, first_token_s=1.5)
    setup = make_setup(clump, prefill=1, decode=1, router=router, spec=spec)

    report = simulate(setup, Static(setup.start))

    assert (report.failed, report.completed) == (0, 40)


def test_short_prompts_share_a_pass_and_long_ones_wait_in_the_router() -> None:
    def ttft_p95_s(prompt_tokens: int, router: QueueSettings) -> float:
        clump = of(*((0.0, prompt_tokens, 5) for _ in range(30)))
        setup = make_setup(clump, prefill=1, decode=1, router=router)
        return simulate(setup, Static(setup.start)).ttft_s["p95"] or 0.0

    two_only = replace(FRUGAL, tokens_per_prefill_pod=1)
    together = QueueSettings(overflow=False)

    assert ttft_p95_s(100, together) < 0.5 * ttft_p95_s(100, two_only)
    assert ttft_p95_s(6000, together) == ttft_p95_s(6000, two_only)


def test_the_gate_follows_an_edited_bound() -> None:
    setup = gated_setup(tpot_s=0.02)
    run = Simulation(Scenario(pools=(setup,)), {"pool": Static(setup.start)})
    run.edit("pool", make_spec(tpot_s=0.006), at_s=8.0)

    report = run.run()["pool"]

    early = [f for f in run.pool("pool").ended if f.number < 100]
    last = [f for f in run.pool("pool").ended if f.number > 1100]
    assert max(f.tpot_s or 0.0 for f in early) > 0.006
    assert max(f.tpot_s or 0.0 for f in last) <= 0.006
    assert report.completed == report.requests


@pytest.mark.parametrize(
    ("spread", "seen", "overflows"),
    [
        (Spread.LEAST_LOADED, 1, True),
        (Spread.LEAST_LOADED, 60, False),
        # A router that remembers what it sent where needs no mean.
        (Spread.PREFIX, 1, False),
    ],
)
def test_cached_prompts_are_expected_to_be_quick_once_the_router_has_seen_hits(
    spread: Spread, seen: int, overflows: bool
) -> None:
    blocks = tuple(range(30))
    times_s = [2.0 * n for n in range(seen)] + 4 * [2.0 * seen]
    shared = [TraceRequest(at_s, 15_360, 5, blocks) for at_s in times_s]
    setup = make_setup(
        Trace("shared", tuple(shared)),
        prefill=1,
        decode=1,
        router=QueueSettings(Order.DEADLINE, spread, overflow=True),
        profile=small_kv(200_000),
    )

    report = simulate(setup, Static(setup.start))

    assert (report.overflowed > 0) is overflows
    assert report.good == seen + 4


@pytest.mark.parametrize("order", Order)
def test_no_request_waits_longer_than_first_token_whatever_the_bound(order: Order) -> None:
    router = QueueSettings(order, first_token_s=2.0, overflow=False, decode_gate=False)
    spec = make_spec(ttft_s=10.0)
    setup = make_setup(steady(60.0, 20.0), prefill=1, decode=2, spec=spec, router=router)

    ended = finished(setup).pool("pool").ended

    shed = [flight for flight in ended if flight.ending is Ending.SHED]
    sent = [flight for flight in ended if flight.ending is Ending.ANSWERED]
    assert shed
    assert all(1.0 <= (flight.end_s or 0.0) - flight.request.at_s < 2.1 for flight in shed)
    assert all((flight.dispatched_s or 0.0) - flight.request.at_s <= 2.0 for flight in sent)
