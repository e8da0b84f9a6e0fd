import json
from dataclasses import replace

from tandem_operator.api import Cost, LatencyStatus
from tandem_operator.core.observation import Quantiles
from tandem_operator.core.role import Role
from tandem_operator.workloads.status.figures import figures_of
from tandem_operator.workloads.status.pool_status import status_of
from tests.golden.pool_sentences import decision, facts


def measured(**changes):
    made = decision()
    recent = replace(
        made.recent,
        attainment=0.99217,
        goodput_rps=3.0,
        ttft=Quantiles(0.1, 0.41234, 1.5),
        **changes,
    )
    return replace(made, recent=recent)


def test_what_people_read_as_text_programs_read_as_numbers():
    status = status_of(facts(decision=measured(), cost=Cost(per_gpu_hour="2.5")))

    assert status.slo.ttft == LatencyStatus(p50="100ms", p95="412ms", p99="1.5s")
    assert status.figures.ttft_p95_seconds == 0.412
    assert (status.slo.attainment, status.figures.attainment_ratio) == ("99.2%", 0.992)
    assert status.figures.gpus == 2
    assert status.figures.good_requests_per_gpu_second == 1.5
    assert (status.cost.per_hour, status.figures.cost_per_hour) == ("5.00 USD", 5.0)
    assert status.figures.tpot_p95_seconds is None


def test_a_pool_of_which_nothing_is_known_has_no_figures():
    unknown = decision()
    roles = {
        role: replace(decided, capacity_rps=None, utilization=None)
        for role, decided in unknown.roles.items()
    }
    recent = replace(
        unknown.recent, attainment=None, goodput_rps=None, ttft=Quantiles(), tpot=Quantiles()
    )
    budget = replace(unknown.budget, remaining_share=None)

    assert (
        figures_of(facts(decision=replace(unknown, roles=roles, recent=recent, budget=budget)))
        is None
    )


def test_a_figure_without_end_is_left_out():
    made = decision()
    roles = {
        **made.roles,
        Role.PREFILL: replace(made.roles[Role.PREFILL], utilization=float("inf")),
    }

    found = figures_of(facts(decision=replace(measured(), roles=roles)))

    assert found.prefill_utilization_ratio is None
    json.dumps(found.to_object(), allow_nan=False)
