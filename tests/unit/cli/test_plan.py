"""`tandem plan` finds the smallest fleet there is, and what other SLOs would cost."""

import json
import re
from dataclasses import replace
from itertools import product

import pytest

from tandem_operator.cli.commands.plan import stepped
from tandem_operator.cli.experiments.search import Search
from tandem_operator.cli.input.case import Case
from tandem_operator.cli.output.chart import WIDTH
from tandem_operator.cli.output.plan_tables import frontiers, p95_s
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.routing.router_queue import QueueSettings
from tests.unit.cli.files import POOL, PROFILE, tandem, write
from tests.unit.sim.setups import ENGINE, counts, make_spec, steady

pytestmark = pytest.mark.simulates

MOST = 4


def make_case(rate_rps: float, *, ttft_s: float = 0.4) -> Case:
    return Case(
        name="pool",
        spec=make_spec(ttft_s=ttft_s, tpot_s=0.0075, most=MOST),
        trace=steady(rate_rps, 8.0),
        profile=ENGINE,
        cold_start=ColdStart(60.0),
        start=counts(1, 1),
        router=QueueSettings(),
        prefix_caching=True,
        seed=1,
        gpu_hour_price=None,
    )


@pytest.mark.parametrize("rate_rps", [10.0, 40.0, 60.0])
def test_no_smaller_fleet_keeps_the_slo_than_the_one_found(rate_rps):
    case = make_case(rate_rps)
    search, every = Search(case), Search(case)

    found = search.smallest(case.spec.slo)

    points = [every.at(size, case.spec.slo) for size in product(range(1, MOST + 1), repeat=2)]
    least = min((p.gpus for p in points if p.meets), default=None)
    assert least is not None
    assert found is not None
    assert found.point.meets
    assert found.point.gpus == least
    assert search.runs < every.runs


def test_a_search_from_a_looser_slo_ends_at_the_same_fleet():
    case = make_case(60.0)
    tighter = replace(case.spec.slo, ttft_s=0.2)
    search = Search(case)

    looser = search.smallest(case.spec.slo)
    after = search.smallest(tighter, tighter_than=looser)
    alone = Search(case).smallest(tighter)

    assert after is not None
    assert alone is not None
    assert after.point.fleet == alone.point.fleet
    assert looser is not None
    assert after.point.gpus >= looser.point.gpus


def test_another_tpot_bound_is_judged_as_if_it_had_been_run_with_it():
    case = make_case(60.0)
    other = replace(case.spec.slo, tpot_s=0.0055)
    search = Search(case)
    search.at((3, 2), case.spec.slo)

    judged = search.at((3, 2), other)
    run = Search(replace(case, spec=replace(case.spec, slo=other))).at((3, 2), other)

    assert search.runs == 1
    assert run.attainment == run.run.report.attainment
    # The router learns the length of answers from good requests alone.
    assert judged.attainment == pytest.approx(run.attainment, abs=0.01)
    assert judged.attainment < search.at((3, 2), case.spec.slo).attainment


def test_no_fleet_is_found_where_the_largest_is_too_small():
    case = make_case(60.0, ttft_s=0.02)
    search = Search(case)

    assert search.smallest(case.spec.slo) is None
    largest = search.at(search.most, case.spec.slo)
    assert largest.ttft_needed_s is not None
    eased = replace(case.spec.slo, ttft_s=largest.ttft_needed_s * 1.05)
    assert search.at(search.most, eased).meets


def test_a_step_of_ttft_moves_both_of_its_parts_and_leaves_tpot():
    slo = Slo(0.4, 0.1, 0.02, 0.95)

    assert stepped(slo, "TTFT", 0.5) == Slo(0.2, 0.05, 0.02, 0.95)
    assert stepped(slo, "TPOT", 0.5) == Slo(0.4, 0.1, 0.01, 0.95)


BRIEF = ("--generate", "poisson", "--rate", "14", "--span", "25s", "--prompt-tokens", "3000")


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    done = {}

    def plan(text=POOL):
        if text not in done:
            folder = tmp_path_factory.mktemp("plan")
            out, page = folder / "plan.json", folder / "plan.html"
            path = write(folder, "planned.yaml", text)
            outputs = ("--json", str(out), "--html", str(page), "--gpu-hour-price", "2.5")
            result = tandem("plan", "-f", path, *PROFILE, *BRIEF, "--seeds", "2", *outputs)
            assert result.exit_code == 0, result.output
            done[text] = json.loads(out.read_text()), result.stdout, page.read_text()
        return done[text]

    return plan


def test_tells_fleets_their_cost_and_what_other_slos_cost(plan):
    told, shown, page = plan()

    cheapest = told["cheapest"]
    assert cheapest["meets"]
    assert all(f["gpus"] >= cheapest["gpus"] for f in told["fleets"] if f["meets"])
    assert cheapest["cost_per_million_output_tokens"] == pytest.approx(
        2.5 * cheapest["gpu_hours_per_million_output_tokens"]
    )
    costs = [change["gpus_difference"] for change in told["slo_changes"]]
    assert len(costs) == 8
    ttft = [cost for cost in costs[:4] if cost is not None]
    assert ttft == sorted(ttft, reverse=True)
    assert cheapest["fleet"] in shown
    assert f"{cheapest['fleet']}, the smallest" in page
    assert 'class="frontier"' in page
    assert told["tandem"]["policy"] == "tandem"


def test_names_of_the_same_point_do_not_lie_over_each_other_nor_past_the_edge(plan):
    _, _, page = plan()

    charts = [chart for chart in page.split("</svg>") if ">Tandem</text>" in chart]
    assert len(charts) == 2
    for chart in charts:
        named = re.findall(
            r'<text class="name(?: end)?" x="([\d.]+)" y="([\d.]+)">([^<]+)</text>', chart
        )
        (x, y, _), (other_x, other_y, _) = named
        assert abs(float(x) - float(other_x)) > 100 or abs(float(y) - float(other_y)) > 12
        assert all(float(x) + 6 * len(text) <= WIDTH for x, _, text in named)


def test_the_frontier_is_exactly_what_no_other_fleet_beats_in_both():
    case = make_case(40.0)
    search = Search(case)
    points = [search.at(size, case.spec.slo) for size in product(range(1, 4), repeat=2)]

    found = frontiers(points)

    for name in ("TTFT", "TPOT"):

        def beats(a, b, name=name):
            mine, other = ((-p.tokens_per_gpu_s, p95_s(p, name)) for p in (a, b))
            return mine != other and mine[0] <= other[0] and mine[1] <= other[1]

        unbeaten = [p for p in points if not any(beats(other, p) for other in points)]
        assert {id(p) for p in found[name]} == {id(p) for p in unbeaten}
        assert 1 < len(found[name]) < len(points)


def test_says_which_bound_could_be_kept_where_no_fleet_is_enough(plan):
    told, shown, _ = plan(POOL.replace("300ms", "10ms").replace("50ms", "0ms"))

    assert told["cheapest"] is None
    assert "No fleet within the replica bounds keeps the SLO; the largest, 4P3D" in shown
    assert "it would keep a TTFT target of" in shown


def test_a_fleet_above_the_budget_is_found_and_marked(plan):
    told, shown, _ = plan(POOL.replace("gpuBudget: 6", "gpuBudget: 2"))

    assert not told["cheapest"]["within_budget"]
    assert "more than gpuBudget 2" in shown
    assert Role.PREFILL.value in told["cheapest"]


def test_tells_what_each_objective_costs_tandem_and_a_fixed_fleet(plan):
    told, shown, page = plan()

    budget = told["budget"]
    assert [each["attainment"] for each in budget] == [0.95, 0.99, 0.999]
    own = budget[0]
    assert own["fixed_fleet"] == told["cheapest"]["fleet"]
    assert own["gpu_hours_by_seed"][0] == told["tandem"]["gpu_hours"]
    assert len(set(own["gpu_hours_by_seed"])) == 2
    fixed = [each["fixed_gpu_hours"] for each in budget if each["fixed_gpu_hours"] is not None]
    assert fixed == sorted(fixed)
    for each in budget[1:]:
        assert each["difference"]["seeds"] == 2
    for words in ("What it costs to keep", "99% instead of 95%", "99.9% instead of 95%"):
        assert words in shown
        assert words in page
