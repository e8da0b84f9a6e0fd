"""Dashboards name what exists, say what they show, and hang together."""

import re
from collections import Counter

import pytest

from docs.lint import LONGEST_SENTENCE, sentences
from manifests.dashboards.panels import Unit
from tandem_engine.router.accounting.router_metrics import RouterMetrics
from tandem_operator.api import ConditionType
from tandem_operator.core.objective.error_budget import BURN_WINDOWS_S
from tandem_operator.core.role import Role
from tandem_operator.metrics.series import LATE_REQUESTS, SERIES, SeriesKind
from tests.golden.dashboard_parts import DASHBOARDS, choices, expressions, panels

PARTS = ("", "_bucket", "_sum", "_count")
OF_OPERATOR = {
    f"{each.name}{part}": each
    for each in SERIES
    for part in (PARTS if each.kind is SeriesKind.HISTOGRAM else ("",))
}
OF_ROUTERS = {
    f"{family.name}{part}"
    for family in RouterMetrics().registry.collect()
    for part in ("_total" if family.type == "counter" else "", "_bucket", "_sum", "_count")
}
# Of every scrape, and of every process that the client library describes.
OF_SCRAPES = {
    "up",
    "scrape_duration_seconds",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
}
OF_TARGETS = {"namespace", "pod", "job"}
VALUES = {
    "condition": set(ConditionType),
    "status": {"true", "false", "unknown"},
    "role": set(Role),
    "window": {*BURN_WINDOWS_S, "30d"},
    "quantile": {"0.5", "0.95", "0.99"},
}
SELECTED = re.compile(r"([a-z_]+)\{([^}]*)\}")
MATCHED = re.compile(r'(\w+)(=~|!=|=)"([^"]*)"')
TEXTS = [(place, text) for place, text, *_ in expressions()] + list(choices())
ALL_PANELS = [(name, panel) for name in DASHBOARDS for panel in panels(name)]


def told(panel: tuple[str, dict[str, str]]) -> str:
    return f"{panel[0]}: {panel[1]['title']}"


@pytest.mark.parametrize(("place", "text"), TEXTS, ids=[place for place, _ in TEXTS])
def test_an_expression_selects_only_series_and_labels_that_exist(place: str, text: str) -> None:
    for name, chosen in SELECTED.findall(text):
        assert name in OF_OPERATOR or name in OF_ROUTERS | OF_SCRAPES, (place, name)
        for label, _, value in MATCHED.findall(chosen):
            if name in OF_OPERATOR:
                assert label in OF_TARGETS | {*OF_OPERATOR[name].labels}, (place, label)
            assert "$" in value or value in VALUES.get(label, {value}), (place, value)
    assert {*re.findall(r"\btandem_\w+", text)} <= {*OF_OPERATOR, *OF_ROUTERS}


@pytest.mark.parametrize("panel", ALL_PANELS, ids=told)
def test_a_panel_says_what_it_shows_in_which_unit_and_from_where(panel) -> None:
    _, shown = panel

    assert shown["fieldConfig"]["defaults"]["unit"] in list(Unit)
    assert shown["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert all(each["datasource"] == shown["datasource"] for each in shown["targets"])
    assert shown["description"].endswith(".")
    too_long = [e for e in sentences(shown["description"]) if e.words > LONGEST_SENTENCE]
    assert not too_long


@pytest.mark.parametrize("panel", ALL_PANELS, ids=told)
def test_a_panel_is_of_the_namespace_and_the_pool_that_were_chosen(panel) -> None:
    name, shown = panel
    scopes = {"operator.json": ('job=~"$job"',)}.get(name, ('namespace=~"$namespace"', "pool"))

    for target in shown["targets"]:
        for _, chosen in SELECTED.findall(target["expr"]):
            assert all(scope in chosen for scope in scopes)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_can_be_linked_to_and_replaced(name: str) -> None:
    made = DASHBOARDS[name]

    assert made["uid"] == f"tandem-{name.removesuffix('.json')}"
    assert made["schemaVersion"] >= 41
    assert "id" not in made
    ids = Counter(panel["id"] for panel in made["panels"])
    assert set(ids.values()) == {1}
    assert {each["name"] for each in made["templating"]["list"]} >= {
        "datasource",
        "namespace",
        "pool",
    }


def test_links_between_dashboards_lead_to_dashboards() -> None:
    uids = {made["uid"] for made in DASHBOARDS.values()}

    linked = {
        uid
        for _, panel in ALL_PANELS
        for override in panel["fieldConfig"]["overrides"]
        for one in override["properties"]
        if one["id"] == "links"
        for link in one["value"]
        for uid in re.findall(r"/d/([\w-]+)", link["url"])
    }
    assert linked
    assert linked <= uids


def test_every_series_of_the_operator_is_shown_somewhere() -> None:
    named = {name for _, text in TEXTS for name in re.findall(r"\btandem_\w+", text)}

    missing = {each.name for each in SERIES if not named & {each.name, f"{each.name}_bucket"}}
    assert missing == {LATE_REQUESTS.name}, "only alerts need that number beside the burn rates"
