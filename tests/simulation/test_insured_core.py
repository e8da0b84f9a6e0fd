"""The live core in a pool whose router insures it: fewer GPUs, and the SLO kept."""

from dataclasses import replace

from benchmarks.other_routers import tuning_for
from tandem_operator.core.spec import Insurance
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.policy import Tandem
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.routing.router_queue import Order, QueueSettings
from tandem_operator.sim.simulate import Scenario, simulate
from tandem_operator.sim.traces.generate import burst, constant, poisson
from tests.unit.sim.setups import CHAT, make_setup, make_spec

ROUTER = QueueSettings(Order.GOODPUT, requests_per_prefill_pod=2, overflow=True, decode_gate=True)
INSURANCE = Insurance(decode_gate=True, overflow=True)


def ran(insurance: Insurance, *, deadline_order: bool) -> PoolReport:
    rate = burst(constant(40.0), factor=1.5, begin_s=180.0, end_s=200.0)
    trace = poisson("burst", rate, most_rps=60.0, span_s=220.0, mix=CHAT, seed=3)
    spec = replace(make_spec(ttft_s=0.4, tpot_s=0.01), insurance=insurance, stabilization_s=10.0)
    setup = make_setup(trace, prefill=3, decode=2, spec=spec, router=ROUTER)
    policy = Tandem(tuning=tuning_for(in_turn=False, deadline_order=deadline_order))
    return simulate(setup, policy, Scenario(pools=(), cold_start=ColdStart(40.0)))


def test_sizing_that_counts_on_the_router_holds_fewer_gpus_and_keeps_the_slo() -> None:
    plain = ran(Insurance(), deadline_order=False)
    insured = ran(INSURANCE, deadline_order=True)

    assert insured.attainment >= 0.95
    assert insured.gpu_hours < 0.95 * plain.gpu_hours
    assert insured.good_per_gpu_s > plain.good_per_gpu_s
