"""The live core beside requests that are late on an idle pod."""

import pytest

from tandem_operator.core.role import Role
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.policy import Tandem
from tandem_operator.sim.simulate import Scenario, simulate
from tandem_operator.sim.traces.generate import Lengths, Mix
from tandem_operator.sim.traces.trace import Trace, joined
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


@pytest.mark.parametrize("ttft_s", [0.001, 0.025])
def test_a_bound_that_no_replica_brings_within_reach_buys_none_and_the_words_say_so(
    ttft_s: float,
) -> None:
    # An idle engine takes 5 ms and 20 us a token, and the first step 4 ms: 25 ms are kept by the
    # few shortest prompts alone, 1 ms by none.
    prompts = Mix(Lengths(1500, 0.5, 200, 8000), SHORT.output)
    spec = make_spec(ttft_s=ttft_s)
    setup = make_setup(steady(10.0, 300.0, mix=prompts), prefill=1, decode=1, spec=spec)
    policy = Tandem()

    found = simulate(setup, policy, Scenario(pools=(), cold_start=ColdStart(20.0)))

    said = {d.roles[Role.PREFILL].sentence for d in policy.decisions[6:]}
    assert found.attainment < 0.2
    assert found.changes == {Role.PREFILL: 0, Role.DECODE: 0}
    assert said == {
        "prefill stays at 1: no number of replicas can keep TTFT within"
        f" {1000 * ttft_s:g} ms for 95 % of requests"
    }


def test_a_bound_out_of_reach_still_buys_the_replicas_that_serve_every_request() -> None:
    # Nine in ten prompts are late on an idle engine, and one engine serves 29 of them a second.
    prompts = Mix(Lengths(1500, 0.5, 200, 8000), SHORT.output)
    spec = make_spec(ttft_s=0.015)
    setup = make_setup(steady(60.0, 300.0, mix=prompts), prefill=1, decode=1, spec=spec)
    policy = Tandem()

    found = simulate(setup, policy, Scenario(pools=(), cold_start=ColdStart(20.0)))

    assert found.moments[-1].ready[Role.PREFILL] >= 3
    assert found.moments[-1].queued < 10
