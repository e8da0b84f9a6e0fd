"""The core corrects for engines that mislead it, and for what their metrics cannot show."""

from dataclasses import replace

from tandem_operator.core.observation import Latency, Observation
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.policy import PolicyAnswer, Tandem
from tandem_operator.sim.traces.generate import constant
from tests.simulation.stories import ONE_EACH, attainment, long_known
from tests.simulation.test_scenarios import SPEC, asked, load, play


class Misled(Tandem):
    """Sees engines take `share` of the time that they take, and clients wait `network_s` more."""

    def __init__(self, *, share: float = 1.0, network_s: float = 0.0) -> None:
        super().__init__(long_known().memory)
        self._share, self._network_s = share, network_s

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        seen = replace(
            observation,
            engines=tuple(
                e if e.itl_sum_s is None else replace(e, itl_sum_s=self._share * e.itl_sum_s)
                for e in observation.engines
            ),
            routers=tuple(
                replace(
                    r,
                    legs=tuple(replace(leg, busy_s=self._share * leg.busy_s) for leg in r.legs),
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
            latency, ttft=replace(latency.ttft, p50_s=latency.ttft.p50_s + self._network_s)
        )


def test_violations_buy_replicas_though_engines_say_that_they_are_fast_enough() -> None:
    report, *_ = play(load(constant(16.0), 120.0), policy=Misled(share=0.2), start=ONE_EACH)

    # The correction alone takes until 135 s.
    assert asked(report, Role.DECODE, 75.0) == 1
    assert asked(report, Role.DECODE, 100.0) == 2


def test_a_delay_that_no_replica_can_change_is_measured_and_counted() -> None:
    near, far = Misled(), Misled(network_s=0.2)

    for policy in (near, far):
        play(load(constant(4.0), 300.0), policy=policy)

    assert near.memory.overhead_s is not None
    assert far.memory.overhead_s is not None
    assert 0.15 < far.memory.overhead_s - near.memory.overhead_s < 0.25


def test_requests_that_come_in_clumps_keep_the_objective() -> None:
    even = load(constant(16.0), 400.0)
    clumped = replace(even, requests=tuple(r for r in even.requests[::20] for _ in range(20)))

    *_, ended = play(clumped)

    assert attainment(ended, 60.0, 400.0, slo=SPEC.slo) >= 0.95
