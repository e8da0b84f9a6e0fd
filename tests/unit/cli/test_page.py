"""Pages show what users name as text, whatever it looks like."""

from dataclasses import replace

import pytest
from jinja2 import UndefinedError

from tandem_operator.cli.experiments.experiment import run
from tandem_operator.cli.experiments.policies import PolicyName, policy_for
from tandem_operator.cli.input.case import Case
from tandem_operator.cli.output.chart import Axis, Chart
from tandem_operator.cli.output.page import render
from tandem_operator.cli.output.simulation_page import simulation_page
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.routing.router_queue import QueueSettings
from tests.unit.cli.files import PROFILE, tandem, write
from tests.unit.sim.setups import ENGINE, counts, make_spec, steady

HTML = "<img src=x onerror='alert(1)'>&\""
ESCAPED = "&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&amp;&#34;"


@pytest.fixture
def case():
    return Case(
        name=HTML,
        spec=make_spec(ttft_s=0.4, tpot_s=0.0075, most=2),
        trace=steady(2.0, 5.0),
        profile=ENGINE,
        cold_start=ColdStart(60.0),
        start=counts(1, 1),
        router=QueueSettings(),
        prefix_caching=True,
        seed=1,
        gpu_hour_price=None,
    )


def test_a_pool_named_like_html_is_text_in_every_place(case):
    done = run(case, policy_for(PolicyName.TANDEM, case))
    named = replace(done, report=replace(done.report, policy=HTML, blame={HTML: 1}))

    page = simulation_page(case, [named, done])

    assert "<img" not in page
    # In the head, the first line and the conditions; the policy in the table and over its part.
    assert page.count(ESCAPED) == 3 + 2 + 1


def test_a_chart_shows_its_texts_as_text():
    chart = Chart(HTML, x=Axis(0.0, 1.0, HTML), y=Axis(0.0, 1.0, ""))
    chart.dots([(0.5, 0.5, HTML)], css="late").markers([(0.5, 0.5, HTML, HTML)], css="decode")
    chart.names([(0.2, 0.2, HTML)], css="name", needed=True)

    svg = chart.svg()

    assert "<img" not in svg
    assert svg.count(f"<title>{ESCAPED}</title>") == 2
    assert f'aria-label="{ESCAPED}"' in svg


@pytest.mark.simulates
@pytest.mark.parametrize("command", ["simulate", "plan"])
def test_a_trace_named_like_html_is_text(tmp_path, pool, command):
    rows = "".join(f"2023-11-16 18:15:{second}.0,374,44\n" for second in range(30, 50))
    trace = write(tmp_path, "<img src=x>.csv", f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}")

    result = tandem(command, "-f", pool, *PROFILE, "--trace", trace, "--html", "-")

    assert result.exit_code == 0, result.output
    assert "&lt;img src=x&gt;.csv" in result.stdout
    assert "<img" not in result.stdout


def test_a_value_that_a_template_misses_is_an_error_and_not_a_gap():
    with pytest.raises(UndefinedError, match="title"):
        render("plan.html")
