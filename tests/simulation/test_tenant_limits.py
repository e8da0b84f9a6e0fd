"""A tenant asks for far more than its limit: the simulator refuses what a live router refuses."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.accounting.ledger import Ledger
from tandem_engine.router.accounting.router_metrics import RouterMetrics
from tandem_engine.router.forwarding.flight import Flight
from tandem_engine.router.http.tenant_desk import KnownTenant, TenantDesk, client_of
from tandem_engine.router.openai.errors import ApiError
from tandem_operator.api import InferencePool, parse_pool
from tandem_operator.cli.input.case import router_of
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo, SloClass
from tandem_operator.sim.cluster.clock import Clock
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.policy import Static
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.simulate import Scenario, Simulation
from tandem_operator.sim.traces.generate import Lengths, Mix
from tandem_operator.sim.traces.trace import Trace, TraceRequest, of_class, of_tenant
from tandem_operator.workloads.builders.config_maps import router_settings
from tandem_routing.verdict import Timeline
from tests.simulation.stories import QUICK, by_tenant
from tests.unit.sim.setups import make_setup, make_spec
from tests.unit.workloads.cluster import pool

SLO = Slo(0.8, 0.1, 0.03, 0.95)
NINE = tuple(f"tenant-{number}" for number in range(1, 10))
FLOOD = "flood"
PROMPT_TOKENS, OUTPUT_TOKENS = 1500, 100
SPAN_S = 180.0
OF = "X-Tenant-Id"

REQUESTS = {"requestsPerMinute": 120}
TOKENS = {"tokensPerMinute": 120 * (PROMPT_TOKENS + OUTPUT_TOKENS)}


def traffic(flood_rps: float) -> Trace:
    """Ten tenants, and what the last asks for; each request is as long as any other."""
    mix = Mix(Lengths(PROMPT_TOKENS), Lengths(OUTPUT_TOKENS))
    rates = dict.fromkeys(NINE, 0.4) | {FLOOD: flood_rps}
    return by_tenant(rates, span_s=SPAN_S, mix=mix)


def pool_with(tenants: dict[str, Any] | None) -> InferencePool:
    router = {} if tenants is None else {"tenants": {"header": OF, **tenants}}
    return parse_pool(pool({"router": router}))


@dataclass(frozen=True)
class Played:
    report: PoolReport
    ended: list[SimulatedFlight]
    limited: list[TraceRequest]


def play(
    trace: Trace, tenants: dict[str, Any] | None, classes: tuple[SloClass, ...] = ()
) -> Played:
    spec = replace(make_spec(), slo=SLO, classes=classes)
    setup = make_setup(trace, prefill=1, decode=1, spec=spec, profile=QUICK)
    router = replace(router_of(pool_with(tenants).spec.router), first_token_s=20.0)
    scenario = Scenario((replace(setup, router=router),), ColdStart(30.0))
    simulation = Simulation(scenario, {"pool": Static(dict.fromkeys(Role, 1))})
    report = simulation.run()["pool"]
    played = simulation.pool("pool")
    return Played(report, played.ended, played.limited)


class LiveDesk:
    """The desk of a live router, which refuses requests of tenants beyond their limits."""

    def __init__(self, tenants: dict[str, Any]) -> None:
        self.clock = Clock()
        self.settings: RouterSettings = router_settings(pool_with(tenants), None, routers=1)
        self.refused: list[TraceRequest] = []
        self._desk = TenantDesk(
            ledger=Ledger(router="r", wall=self._now_s, clock=self._now_s),
            metrics=RouterMetrics(),
            clock=self._now_s,
        )

    def _now_s(self) -> float:
        return self.clock.now_s

    def play(self, trace: Trace, *, service_s: dict[TraceRequest, float]) -> None:
        """Ask for each request, and end those that pass after the time that they take."""
        for request in trace.requests:
            self.clock.at(request.at_s, lambda request=request: self._ask(request, service_s))  # type: ignore[misc]
        while self.clock.now_s < SPAN_S + 60.0 and self.clock.step():
            pass

    def _ask(self, request: TraceRequest, service_s: dict[TraceRequest, float]) -> None:
        client = client_of({OF: request.tenant}, self.settings, credentials=None)
        assert client is not None
        tokens = request.prompt_tokens + OUTPUT_TOKENS
        try:
            self._desk.admit(client, tokens=tokens)
        except ApiError:
            self.refused.append(request)
            return
        self.clock.after(
            service_s.get(request, 1.0), lambda: self._end(client, request, counted=tokens)
        )

    def _end(self, client: KnownTenant, request: TraceRequest, *, counted: int) -> None:
        ended = SimpleNamespace(
            used_tokens=request.prompt_tokens + request.output_tokens,
            output_tokens=request.output_tokens,
            timeline=Timeline(received_s=request.at_s),
        )
        self._desk.ended(client, cast("Flight", ended), counted=counted)


def test_nine_tenants_do_not_notice_that_the_tenth_floods_far_beyond_its_limit() -> None:
    limited = {"named": [{"name": FLOOD, **REQUESTS}]}

    quiet = play(traffic(0.4), limited).report
    flooded = play(traffic(60.0), limited).report

    for name in NINE:
        assert flooded.tenants[name].good == quiet.tenants[name].good
        assert flooded.tenants[name].refused == 0
    flood = flooded.tenants[FLOOD]
    # A minute's worth at once, and then as many in each of three minutes.
    assert flood.requests - flood.limited == pytest.approx(4 * 120, abs=2)
    assert flood.refused == flood.limited


@pytest.mark.parametrize("tenants", [{"named": [{"name": FLOOD, **REQUESTS}]}, REQUESTS])
def test_a_live_router_refuses_the_same_requests_by_their_number(tenants: dict[str, Any]) -> None:
    trace = traffic(20.0)

    played = play(trace, tenants)
    live = LiveDesk(tenants)
    live.play(trace, service_s={})

    assert len(played.limited) > 2000
    assert played.limited == live.refused


def test_a_live_router_refuses_as_many_by_their_tokens() -> None:
    tenants = {"named": [{"name": FLOOD, **TOKENS}]}
    trace = traffic(20.0)

    played = play(trace, tenants)
    live = LiveDesk(tenants)
    took_s = {f.request: (f.end_s or 0.0) - f.request.at_s for f in played.ended}
    live.play(trace, service_s=took_s)

    # What a router expects of an answer before it has seen one is not what it expects later.
    assert len(played.limited) == pytest.approx(len(live.refused), abs=10)
    flood = played.report.tenants[FLOOD]
    assert flood.requests - flood.limited == pytest.approx(4 * 120, abs=10)


def test_requests_beyond_a_limit_are_no_demand_and_in_no_other_count() -> None:
    trace = traffic(20.0)
    limits = {"named": [{"name": FLOOD, **REQUESTS}]}

    played = play(of_class(trace, "chat"), limits, (SloClass("chat", SLO),))

    report = played.report
    assert report.limited == len(played.limited) == report.tenants[FLOOD].limited
    assert report.requests + report.limited == len(trace.requests)
    assert report.completed + report.failed + report.unfinished == report.requests
    assert report.classes["chat"].requests == report.requests
    assert {f.request.tenant for f in played.ended} == {*NINE, FLOOD}


def test_tenants_that_no_pool_names_and_no_report_tells_apart_have_no_limit() -> None:
    trace = of_tenant(traffic(1.0), "other")

    apart = play(trace, {"requestsPerMinute": 10})
    shared = play(trace, {"requestsPerMinute": 10, "others": "Shared"})

    assert not apart.limited
    assert shared.report.tenants["other"].limited > 0
