"""Load that does not change: the fleet settles, and stays, with the default stabilization."""

import itertools
from dataclasses import replace

import pytest

from tandem_operator.core.role import Role
from tandem_operator.sim.generate import Lengths, Mix, constant, poisson
from tandem_operator.sim.pods import ColdStart
from tandem_operator.sim.policy import Tandem
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.simulate import Scenario, simulate
from tests.simulation.stories import ENGINE
from tests.unit.core.scene import make_spec

SPEC = replace(
    make_spec(ttft_s=1.5, tpot_s=0.025, high=12, stabilization_s=10.0), max_model_len=8000
)
MIX = Mix(Lengths(700, 0.3, 16, 4000), Lengths(80, 0.4, 2, 400))
SETTLED_S, HOUR_S = 1200.0, 3600.0


def play(rate_rps: float, *, seed: int, span_s: float) -> PoolReport:
    trace = poisson(
        "constant", constant(rate_rps), most_rps=rate_rps, span_s=span_s, mix=MIX, seed=seed
    )
    setup = PoolSetup(
        name="pool",
        spec=SPEC,
        trace=trace,
        profile=replace(ENGINE, jitter=0.1),
        start=dict.fromkeys(Role, 2),
    )
    return simulate(setup, Tandem(), Scenario(pools=(), cold_start=ColdStart(40.0, 0.1), seed=seed))


def changes(report: PoolReport, role: Role, *, after_s: float) -> int:
    path = [m.asked[role] for m in report.moments if m.at_s >= after_s]
    return sum(1 for a, b in itertools.pairwise(path) if a != b)


# At 3 requests/s the load of decode lies between one replica and two, at 4 that of prefill.
@pytest.mark.parametrize(("rate_rps", "seed"), [(3.0, 1), (4.0, 2)])
def test_a_load_between_two_counts_settles_on_one(rate_rps: float, seed: int) -> None:
    report = play(rate_rps, seed=seed, span_s=SETTLED_S + HOUR_S)

    assert report.attainment >= 0.95
    assert all(changes(report, role, after_s=SETTLED_S) <= 1 for role in Role)
