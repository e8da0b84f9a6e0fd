"""What the core makes up for where engines mislead it or their metrics cannot show something."""

from dataclasses import replace

from tandem_operator.core.observation import Latency, Observation
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.generate import constant
from tandem_operator.sim.policy import Answer, Tandem
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.simulate import Scenario, Simulation
from tandem_operator.sim.trace import Trace
from tests.simulation.stories import QUICK, long_known
from tests.simulation.test_scenarios import SPEC, STARTS, asked, attainment, load


class Misled(Tandem):
    """Sees engines take `share` of the time that they take, and clients wait `network_s` more."""

    share, network_s = 1.0, 0.0

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> Answer:
        seen = replace(
            observation,
            engines=tuple(
                e if e.itl_sum_s is None else replace(e, itl_sum_s=self.share * e.itl_sum_s)
                for e in observation.engines
            ),
            routers=tuple(
                replace(
                    r,
                    legs=tuple(replace(leg, busy_s=self.share * leg.busy_s) for leg in r.legs),
                )
                for r in observation.routers
            ),
            latency=self._farther(observation.latency),
        )
        return super().tick(spec, seen, now_s)

    def _farther(self, latency: Latency | None) -> Latency | None:
        if latency is None or latency.ttft.p50_s is None:
            return latency
        return replace(
            latency, ttft=replace(latency.ttft, p50_s=latency.ttft.p50_s + self.network_s)
        )


def play(trace: Trace, policy: Tandem, *, start: int = 2) -> PoolReport:
    fleet = dict.fromkeys(Role, start)
    setup = PoolSetup(name="pool", spec=SPEC, trace=trace, profile=QUICK, start=fleet)
    return Simulation(Scenario(pools=(setup,), cold_start=STARTS), {"pool": policy}).run()["pool"]


def test_violations_buy_replicas_though_engines_say_that_they_are_fast_enough() -> None:
    policy = Misled(long_known().memory)
    policy.share = 0.2

    report = play(load(constant(16.0), 120.0), policy, start=1)

    # The correction alone takes until 135 s.
    assert asked(report, Role.DECODE, 75.0) == 1
    assert asked(report, Role.DECODE, 100.0) == 2


def test_a_delay_that_no_replica_can_change_is_measured_and_counted() -> None:
    near, far = Misled(long_known().memory), Misled(long_known().memory)
    far.network_s = 0.2

    play(load(constant(4.0), 300.0), near)
    play(load(constant(4.0), 300.0), far)

    assert near.memory.overhead_s is not None
    assert far.memory.overhead_s is not None
    assert 0.15 < far.memory.overhead_s - near.memory.overhead_s < 0.25


def test_requests_that_come_in_clumps_keep_the_objective() -> None:
    even = load(constant(16.0), 400.0)
    clumped = replace(even, requests=tuple(r for r in even.requests[::20] for _ in range(20)))

    report = play(clumped, long_known())

    assert attainment(report, 60.0, 400.0) >= 0.95
