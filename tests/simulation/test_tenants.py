"""Tenants on one fleet, and one of them asks for far more than its share."""

from dataclasses import replace

from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.policy import Static
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.routing.tenant_rules import TenantRules, named_tenant
from tandem_operator.sim.simulate import Scenario, Simulation
from tandem_operator.sim.traces.trace import Trace, joined, of_tenant
from tests.simulation.stories import CHAT, QUICK, by_tenant
from tests.unit.sim.setups import make_setup, make_spec

SLO = Slo(0.8, 0.1, 0.03, 0.95)
QUIET = ("a", "b", "c")
SPAN_S = 60.0


def traffic(flood_rps: float) -> Trace:
    rates = dict.fromkeys(QUIET, 1.0) | {"flood": flood_rps}
    return by_tenant(rates, span_s=SPAN_S, mix=CHAT)


def play(trace: Trace, *, tenants: TenantRules | None) -> PoolReport:
    spec = replace(make_spec(), slo=SLO)
    setup = make_setup(trace, prefill=1, decode=1, spec=spec, profile=QUICK)
    router = replace(setup.router, tenants=tenants, first_token_s=20.0)
    scenario = Scenario((replace(setup, router=router),), ColdStart(30.0))
    return Simulation(scenario, {"pool": Static(dict.fromkeys(Role, 1))}).run()["pool"]


def attainment(report: PoolReport, name: str) -> float:
    found = report.tenants[name].attainment
    assert found is not None
    return found


def test_in_a_flood_of_one_tenant_the_others_keep_their_objective() -> None:
    trace = traffic(60.0)

    without = play(trace, tenants=None)
    fair = play(trace, tenants=TenantRules())

    for name in QUIET:
        assert attainment(without, name) < SLO.attainment
        assert attainment(fair, name) >= SLO.attainment
    assert fair.tenants["flood"].good > 0
    assert fair.good > 0.7 * without.good


def test_without_a_flood_tenants_change_nothing() -> None:
    trace = traffic(1.0)

    assert play(trace, tenants=TenantRules()).ttft_s == play(trace, tenants=None).ttft_s


def test_of_two_floods_the_heavier_tenant_gets_more() -> None:
    trace = traffic(0.5)
    both = joined("both", [trace, *(of_tenant(traffic(30.0), name) for name in ("x", "y"))])

    report = play(both, tenants=TenantRules({"x": named_tenant("x", weight=3.0)}))

    assert report.tenants["x"].good > 1.5 * report.tenants["y"].good
