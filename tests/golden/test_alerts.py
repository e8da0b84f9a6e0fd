"""Alerts, series and runbooks belong together: none names what another does not have."""

import re
from collections.abc import Iterator

import pytest

from docs.lint import LONGEST_SENTENCE, sentences
from manifests.alerts import RUNBOOKS, Alert, every_alert
from manifests.generate import ROOT
from tandem_engine.router.accounting.router_metrics import RouterMetrics
from tandem_operator.api import ConditionType
from tandem_operator.core.objective.error_budget import BURN_WINDOWS_S
from tandem_operator.metrics.series import SERIES

EXPORTED = {each.name: each for each in SERIES}
ALERTS = tuple(every_alert())
PARTS = ("**Meaning.**", "**Look at.**", "**Do.**")
RUNBOOK_PAGE = ROOT / "docs" / "how-to" / "runbooks.md"


def matchers(alert: Alert) -> Iterator[tuple[str, str, str]]:
    """Return series, label and value of each matcher of an alert."""
    for name, chosen in re.findall(r"(tandem_\w+)(?:\{([^}]*)\})?", alert.expr):
        assert name in EXPORTED, name
        for label, value in re.findall(r'(\w+)="([^"]*)"', chosen):
            yield name, label, value


def runbooks() -> dict[str, str]:
    parts = re.split(r"^## (\w+)$", RUNBOOK_PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda each: f"{each.name}-{each.hold}")
def test_an_alert_selects_only_what_the_operator_exports(alert: Alert) -> None:
    assert alert.expr
    for name, label, value in matchers(alert):
        assert label in EXPORTED[name].labels
        assert label != "window" or value in BURN_WINDOWS_S
        assert label != "condition" or value in list(ConditionType)


def test_every_alert_has_a_runbook_and_every_runbook_its_alert() -> None:
    assert {alert.name for alert in ALERTS} == set(runbooks())


@pytest.mark.parametrize("name", runbooks())
def test_a_runbook_says_what_it_means_what_to_look_at_and_what_to_do(name: str) -> None:
    places = [runbooks()[name].index(part) for part in PARTS]

    assert places == sorted(places)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda each: f"{each.name}-{each.hold}")
def test_an_alert_links_to_its_section(alert: Alert) -> None:
    assert alert.rule()["annotations"]["runbook_url"] == f"{RUNBOOKS}#{alert.name.lower()}"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda each: f"{each.name}-{each.hold}")
def test_an_alert_is_told_in_short_sentences(alert: Alert) -> None:
    told = re.sub(r"\{\{[^}]*\}\}", "x", f"{alert.summary}.\n\n{alert.description}")

    assert not [each for each in sentences(told) if each.words > LONGEST_SENTENCE]


def test_the_guide_lists_every_alert() -> None:
    guide = (ROOT / "docs" / "how-to" / "connect-prometheus.md").read_text()

    assert {alert.name for alert in ALERTS} <= set(re.findall(r"`(Tandem\w+)`", guide))


def test_documents_name_only_series_of_operator_and_routers() -> None:
    counted = {family.name for family in RouterMetrics().registry.collect()}
    known = {*EXPORTED, *counted, *(f"{name}_total" for name in counted)}

    named = {
        name
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for name in re.findall(
            r"`(tandem_(?:pool|decision|decisions|router|metrics)_\w+)", page.read_text()
        )
    }
    strange = {name for name in named if name not in known and not name.endswith("_")}
    assert strange == set()


def test_contracts_list_every_series_of_routers() -> None:
    page = (ROOT / "docs" / "reference" / "contracts.md").read_text()

    families = [
        family for family in RouterMetrics().registry.collect() if family.name.startswith("tandem")
    ]
    missing = [each.name for each in families if f"`{each.name}" not in page]
    assert missing == []
    assert len(families) > 15
