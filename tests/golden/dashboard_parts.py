"""The parts of the dashboards' JSON that tests read."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from manifests.dashboards import render

DASHBOARDS: Mapping[str, Any] = {name: json.loads(text) for name, text in render().items()}


class Expression(NamedTuple):
    """One expression of a dashboard, and the name of its lines, marks or columns.

    `over_time`: whether it covers the shown time, and not only the present.
    """

    place: str
    text: str
    legend: str
    over_time: bool


def panels(dashboard: str) -> list[Any]:
    """Return everything but the heads of rows."""
    return [each for each in DASHBOARDS[dashboard]["panels"] if each["type"] != "row"]


def expressions() -> Iterator[Expression]:
    """Yield every expression of every dashboard: panels, then marks."""
    for name, dashboard in DASHBOARDS.items():
        for panel in panels(name):
            for target in panel["targets"]:
                place = f"{name}: {panel['title']} {target['refId']}"
                yield Expression(place, target["expr"], target["legendFormat"], target["range"])
        for mark in dashboard["annotations"].get("list", ()):
            yield Expression(f"{name}: {mark['name']}", mark["expr"], mark["titleFormat"], True)


def choices() -> Iterator[tuple[str, str]]:
    """Yield every query of a variable, with its place."""
    for name, dashboard in DASHBOARDS.items():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                yield f"{name}: {variable['name']}", variable["query"]["query"]
