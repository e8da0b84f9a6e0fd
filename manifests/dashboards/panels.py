"""The panels that every dashboard is built of. Each says what it shows, in which unit, from where.

Grafana's own types write the JSON, so a dashboard has the fields of the Grafana that they are for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG = "tandem"
WIDTH = 24
BOUNDS = ".*(bound|objective|fewest|most|budget).*"
"""The names of lines that measure nothing: they are dashed."""
GREEN, ORANGE, RED = "green", "orange", "red"


class Unit(StrEnum):
    """The units that panels use, as Grafana names them."""

    SECONDS = "s"
    SHARE = "percentunit"
    REQUESTS_PER_S = "reqps"
    TOKENS_PER_S = "suffix: tokens/s"
    PASSES_PER_S = "suffix: passes/s"
    PASSES_PER_MINUTE = "suffix: passes/min"
    CORES = "suffix: cores"
    TIMES = "suffix: x"
    COUNT = "none"
    BYTES = "bytes"
    TEXT = "string"
    MONEY = "short"
    """Amounts whose currency stands in the name of the line."""
    GPU_HOURS = "suffix: GPU-hours"
    GOODPUT_PER_GPU = "suffix: req/s per GPU"


@dataclass(frozen=True, slots=True)
class Query:
    """One expression, and the name of its lines."""

    expr: str
    legend: str


Steps = Sequence[tuple[float | None, str]]
"""Colours from a value on; the first has none."""
BUDGET_LEFT: Steps = ((None, RED), (0.0, ORANGE), (0.25, GREEN))
BURN: Steps = ((None, GREEN), (1.0, ORANGE), (6.0, RED))
BAD_ABOVE_ZERO: Steps = ((None, GREEN), (1.0, RED))
BAD_BELOW_ONE: Steps = ((None, RED), (1.0, GREEN))
CONTEXT: Steps = ((None, "blue"),)


def _thresholds(steps: Steps) -> builders.ThresholdsConfig:
    found = [models.Threshold(value=value, color=color) for value, color in steps]
    return builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(found)


def _target(
    query: Query, index: int, *, instant: bool, as_table: bool = False
) -> prometheus.Dataquery:
    found = (
        prometheus.Dataquery()
        .ref_id(chr(ord("A") + index))
        .expr(query.expr)
        .legend_format(query.legend)
        .datasource(SOURCE)
        .format(PromQueryFormat.TABLE if as_table else PromQueryFormat.TIME_SERIES)
    )
    return found.instant() if instant else found.range()


def _targets(
    queries: Iterable[Query], *, instant: bool = False, as_table: bool = False
) -> list[prometheus.Dataquery]:
    return [
        _target(query, index, instant=instant, as_table=as_table)
        for index, query in enumerate(queries)
    ]


def lines(
    title: str,
    description: str,
    *queries: Query,
    unit: Unit,
    width: int = 8,
    height: int = 8,
    stacked: bool = False,
    stepped: bool = False,
    dashed: str | None = None,
    lowest: float | None = 0.0,
) -> timeseries.Panel:
    """Return the lines over time. Those whose name matches `dashed` are bounds."""
    step, line = common.LineInterpolation.STEP_AFTER, common.LineInterpolation.LINEAR
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit(unit.value)
        .targets(_targets(queries))
        .span(width)
        .height(height)
        .line_width(1)
        .fill_opacity(30 if stacked else 5)
        .show_points(common.VisibilityMode.NEVER)
        .line_interpolation(step if stepped else line)
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(
            common_builders.VizTooltipOptions()
            .mode(common.TooltipDisplayMode.MULTI)
            .sort(common.SortOrder.DESCENDING)
        )
    )
    if lowest is not None:
        panel = panel.min(lowest)
    if stacked:
        stacking = common_builders.StackingConfig().mode(common.StackingMode.NORMAL)
        panel = panel.stacking(stacking)
    if dashed is not None:
        style = {"fill": "dash", "dash": [10, 10]}
        panel = panel.override_by_regexp(
            dashed,
            [
                models.DynamicConfigValue("custom.lineStyle", style),
                models.DynamicConfigValue("custom.fillOpacity", 0),
                models.DynamicConfigValue("custom.lineWidth", 2),
            ],
        )
    return panel


def number(
    title: str,
    description: str,
    query: Query,
    *,
    unit: Unit,
    width: int = 4,
    steps: Steps = CONTEXT,
    as_name: bool = False,
) -> stat.Panel:
    """Return one present number; `as_name`: the legend stands in its place."""
    text = common.BigValueTextMode.NAME if as_name else common.BigValueTextMode.VALUE
    return (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit(unit.value)
        .targets(_targets([query], instant=True))
        .span(width)
        .height(4)
        .thresholds(_thresholds(steps))
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.NONE)
        .text_mode(text)
        .no_value("unknown")
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def states(
    title: str,
    description: str,
    *queries: Query,
    words: Mapping[int, tuple[str, str]],
    width: int = 12,
    height: int = 8,
) -> statetimeline.Panel:
    """Return a bar for each line, with a colour and a word for each value."""
    options = {
        str(value): models.ValueMappingResult(text=text, color=color)
        for value, (text, color) in words.items()
    }
    return (
        statetimeline.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit(Unit.COUNT.value)
        .targets(_targets(queries))
        .span(width)
        .height(height)
        .mappings([models.ValueMap(options=options)])
        .show_value(common.VisibilityMode.NEVER)
        .merge_values(True)
        .row_height(0.8)
    )


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: its name, the source of its values, and their form."""

    name: str
    expr: str
    unit: Unit
    steps: Steps | None = None


def columns(
    title: str,
    description: str,
    *found: Column,
    by: Sequence[str],
    link: tuple[str, str] | None = None,
    height: int = 9,
) -> table.Panel:
    """Return a row for each value of the labels `by`; `link` is the last one's title and URL."""
    queries = [Query(column.expr, column.name) for column in found]
    renamed = {f"Value #{chr(ord('A') + index)}": each.name for index, each in enumerate(found)}
    order = {name: index for index, name in enumerate((*by, *renamed))}
    panel = (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit(Unit.COUNT.value)
        .targets(_targets(queries, instant=True, as_table=True))
        .span(WIDTH)
        .height(height)
        .with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            models.DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": {"Time": True},
                    "indexByName": order,
                    "renameByName": renamed,
                },
            )
        )
    )
    for column in found:
        panel = panel.override_by_name(column.name, _told(column))
    if link is not None:
        words, url = link
        panel = panel.override_by_name(
            by[-1], [models.DynamicConfigValue("links", [{"title": words, "url": url}])]
        )
    return panel


def _told(column: Column) -> list[models.DynamicConfigValue]:
    told: list[tuple[str, Any]] = [("unit", column.unit.value)]
    if column.steps is not None:
        told.append(("thresholds", _thresholds(column.steps).build()))
        told.append(("custom.cellOptions", {"type": "color-text"}))
    return [models.DynamicConfigValue(name, value) for name, value in told]
