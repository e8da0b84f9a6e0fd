"""The dashboards, judged by a real Prometheus: their grammar, and answers to every question."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster.gobuild import PROMETHEUS, PROMTOOL, build, go_problem, is_built
from e2e.prometheus_process import Ask, prometheus
from tests.golden.dashboard_parts import DASHBOARDS, Expression, choices, expressions
from tests.integration.charts import of_kind, render
from tests.integration.exported_story import BEGIN_S, END_S, NAMESPACE, OPERATOR, POOL, scraped

GRAFANA = {
    "$__rate_interval": "1m",
    "$__interval": "20s",
    "$__range": "15m",
    "$job": ".*",
    "$operator": ".*",
    "$namespace": ".*",
    "${pool}": POOL,
    "$pool": POOL,
}
EXPRESSIONS, CHOICES = list(expressions()), list(choices())


def as_asked(text: str) -> str:
    """Return an expression as Grafana sends it."""
    for variable, value in GRAFANA.items():
        text = text.replace(variable, value)
    assert "$" not in text
    return text


@pytest.fixture(scope="module")
def promtool() -> str:
    if not is_built(PROMTOOL) and (problem := go_problem()):
        pytest.skip(problem)
    return str(build(PROMTOOL) / "promtool")


@pytest.fixture(scope="module")
def ask(promtool: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """A Prometheus that has scraped the story, by the path and parameters of its API."""
    if not is_built(PROMETHEUS) and (problem := go_problem()):
        pytest.skip(problem)
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "story.txt").write_text(scraped())
    words = ("tsdb", "create-blocks-from", "openmetrics", "--quiet")
    subprocess.run(
        [promtool, *words, folder / "story.txt", folder / "data"], check=True, timeout=100
    )
    with prometheus(folder, {}, "--storage.tsdb.retention.time=100y") as asked:
        yield asked


def test_prometheus_takes_every_expression(promtool: str, tmp_path: Path) -> None:
    rules = [
        {"record": f"dashboard:expression:{index}", "expr": as_asked(each.text)}
        for index, each in enumerate(EXPRESSIONS)
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))

    done = subprocess.run(
        [promtool, "check", "rules", file], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


@pytest.mark.parametrize("each", EXPRESSIONS, ids=lambda each: each.place)
def test_every_expression_has_an_answer_with_the_labels_of_its_legend(
    ask: Ask, each: Expression
) -> None:
    if each.over_time:
        found = ask(
            "/api/v1/query_range",
            query=as_asked(each.text),
            start=BEGIN_S + 60.0,
            end=END_S,
            step=20,
        )
    else:
        found = ask("/api/v1/query", query=as_asked(each.text), time=END_S - 20.0)

    values = [
        value for line in found["result"] for _, value in line.get("values", [line.get("value")])
    ]
    assert {*values} - {"NaN"}, each.text
    wanted = {*re.findall(r"\{\{(\w+)\}\}", each.legend)}
    for line in found["result"]:
        assert wanted <= line["metric"].keys()


@pytest.mark.parametrize(("place", "query"), CHOICES, ids=[place for place, _ in CHOICES])
def test_every_variable_has_a_value(ask: Ask, place: str, query: str) -> None:
    selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", as_asked(query)).groups()

    found = ask(f"/api/v1/label/{label}/values", **{"match[]": selector})

    known = {"namespace": {NAMESPACE, OPERATOR["namespace"]}, "job": {OPERATOR["job"]}}
    assert set(found) & known.get(label, {POOL}), place


def test_the_chart_has_each_dashboard_in_a_config_map() -> None:
    made = of_kind(render("--set", "dashboards.enabled=true"), "ConfigMap")

    held = {name: json.loads(text) for each in made for name, text in each["data"].items()}
    assert held == DASHBOARDS
    assert all(each["metadata"]["labels"]["grafana_dashboard"] == "1" for each in made)


def test_the_chart_makes_no_dashboards_unless_asked() -> None:
    assert not of_kind(render(), "ConfigMap")


def test_a_dashboard_without_a_folder_has_no_annotation() -> None:
    made = of_kind(render("--set", "dashboards.enabled=true,dashboards.folder="), "ConfigMap")

    assert len(made) == len(DASHBOARDS)
    assert not any("annotations" in each["metadata"] for each in made)
