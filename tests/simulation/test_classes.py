"""Interactive requests and batch on one fleet that is too small for both."""

from dataclasses import replace

import pytest

from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo, SloClass
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.flight import judge
from tandem_operator.sim.policy import Policy, Static, Tandem
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.simulate import Scenario, Simulation
from tandem_operator.sim.traces.generate import Lengths, Mix, constant, poisson
from tandem_operator.sim.traces.trace import Trace, joined, of_class
from tests.simulation.stories import CHAT, QUICK
from tests.unit.sim.setups import make_setup, make_spec

CHAT_SLO = Slo(0.8, 0.1, 0.03, 0.95)
BATCH_SLO = Slo(300.0, 0.0, 0.5, 0.5)
CLASSES = (
    SloClass("default", CHAT_SLO),
    SloClass("batch", BATCH_SLO, guaranteed=False),
)
DOCUMENTS = Mix(Lengths(2500, 0.5, 16, 8000), Lengths(150, 0.4, 2, 600))
SPAN_S = 150.0


def traffic(chat_rps: float, batch_rps: float) -> Trace:
    chat = poisson("chat", constant(chat_rps), most_rps=chat_rps, span_s=SPAN_S, mix=CHAT, seed=1)
    batch = poisson(
        "batch", constant(batch_rps), most_rps=batch_rps, span_s=SPAN_S, mix=DOCUMENTS, seed=2
    )
    return joined("both", (chat, of_class(batch, "batch")))


def play(
    trace: Trace, *, classes: tuple[SloClass, ...], policy: Policy, start: int = 1
) -> tuple[PoolReport, dict[str, float]]:
    """Return the report, and the share of good requests by class, also where there is none."""
    spec = replace(make_spec(), slo=CHAT_SLO, stabilization_s=30.0, classes=classes)
    setup = make_setup(trace, prefill=start, decode=start, spec=spec, profile=QUICK)
    simulation = Simulation(Scenario((setup,), ColdStart(30.0)), {"pool": policy})
    report = simulation.run()["pool"]
    kept = {}
    for name, slo in (("", CHAT_SLO), ("batch", BATCH_SLO)):
        flights = [f for f in simulation.pool("pool").ended if f.request.slo_class == name]
        kept[name] = sum(judge(f, slo).good for f in flights) / len(flights)
    return report, kept


def test_in_an_overload_interactive_requests_keep_their_objective_and_batch_gets_the_rest() -> None:
    trace = traffic(9.0, 5.0)
    fixed = dict.fromkeys(Role, 1)

    _, before = play(trace, classes=(), policy=Static(fixed))
    report, kept = play(trace, classes=CLASSES, policy=Static(fixed))

    assert before[""] < CHAT_SLO.attainment
    assert kept[""] >= CHAT_SLO.attainment
    assert report.unfinished == 0
    assert report.classes["batch"].output_tokens > 0
    assert report.attainment == pytest.approx(report.classes["default"].attainment)


def test_no_replica_is_held_for_best_effort() -> None:
    trace = traffic(4.0, 12.0)

    with_classes, kept = play(trace, classes=CLASSES, policy=Tandem())
    without, _ = play(trace, classes=(), policy=Tandem())

    assert kept[""] >= CHAT_SLO.attainment
    assert max(m.gpus for m in with_classes.moments) < max(m.gpus for m in without.moments)


def test_a_pool_with_one_class_does_what_a_pool_without_classes_does() -> None:
    trace = traffic(6.0, 1.0)

    without, _ = play(trace, classes=(), policy=Tandem())
    one = (SloClass("default", CHAT_SLO),)
    with_one, _ = play(trace, classes=one, policy=Tandem())

    assert with_one.moments == without.moments
    assert with_one.ttft_s == without.ttft_s
    assert with_one.good == without.good


def test_refused_requests_are_late_ones_and_still_demand() -> None:
    trace = traffic(9.0, 5.0)
    served = (SloClass("default", CHAT_SLO), SloClass("batch", CHAT_SLO))
    refused = tuple(replace(each, refuse_late=True) for each in served)
    fixed = dict.fromkeys(Role, 1)

    before, _ = play(trace, classes=served, policy=Static(fixed))
    after, _ = play(trace, classes=refused, policy=Static(fixed))
    sized_before, _ = play(trace, classes=served, policy=Tandem())
    sized_after, _ = play(trace, classes=refused, policy=Tandem())

    turned_away = sum(each.refused for each in after.classes.values())
    assert turned_away > 0
    assert after.requests == after.completed + turned_away
    assert after.good >= 0.99 * before.good
    assert after.good / after.completed > before.good / before.completed
    most = [max(m.gpus for m in report.moments) for report in (sized_before, sized_after)]
    assert most[1] >= most[0]
