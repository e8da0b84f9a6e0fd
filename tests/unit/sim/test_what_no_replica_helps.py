"""The live core beside requests that are late on an idle pod."""

import pytest

from tandem_operator.core.role import Role
from tandem_operator.sim.generate import Lengths, Mix
from tandem_operator.sim.pods import ColdStart
from tandem_operator.sim.policy import Tandem
from tandem_operator.sim.simulate import Scenario, simulate
from tandem_operator.sim.trace import Trace, joined
from tests.unit.sim.setups import make_setup, make_spec, steady

SHORT = Mix(Lengths(1500, 0.3, 16, 3000), Lengths(40, 0.3, 2, 100))
LONG = Mix(Lengths(30_000, 0.0, 16, 30_000), SHORT.output)


def three_in_a_hundred_are_hopeless() -> Trace:
    return joined(
        "hopeless", [steady(10.0, 500.0, mix=SHORT), steady(0.3, 500.0, mix=LONG, seed=2)]
    )


def test_requests_that_no_replica_makes_in_time_are_not_taken_for_slow_replicas() -> None:
    policy = Tandem()
    setup = make_setup(three_in_a_hundred_are_hopeless(), spec=make_spec(ttft_s=0.5))

    found = simulate(setup, policy, Scenario(pools=(), cold_start=ColdStart(20.0)))

    assert 0.9 < found.attainment < 0.98
    assert policy.memory.correction.of(Role.PREFILL) == pytest.approx(1.0, abs=0.1)
