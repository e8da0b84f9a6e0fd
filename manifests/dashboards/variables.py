"""The frame of a dashboard: its head, its variables, its links to the others, its annotations."""

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.models import dashboard as models

from manifests.dashboards.panels import SOURCE, TAG
from manifests.promql import largest, selected
from tandem_operator.metrics import series
from tandem_operator.metrics.series import MetricSeries

NAMESPACE = 'namespace=~"$namespace"'
POOL = 'pool=~"$pool"'


def framed(*, uid: str, title: str, description: str, since: str) -> builders.Dashboard:
    """Return a dashboard without panels, with a choice of Prometheus and links to its sisters."""
    return (
        builders.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .editable()
        .timezone("browser")
        .refresh("30s")
        .time(f"now-{since}", "now")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .with_variable(
            builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
        )
        .link(
            builders.DashboardLink("Tandem")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
        )
    )


def choice(
    label: str, *, of: MetricSeries, within: tuple[str, ...] = (), every: bool, name: str = ""
) -> builders.QueryVariable:
    """Return a variable over the values of a label; `every`: several can be chosen, and all are.

    `name`: of a variable that means something else than those of the label's name elsewhere, for
    links between dashboards hand all values on.
    """
    query = f"label_values({selected(of, *within)}, {label})"
    found = (
        builders.QueryVariable(name or label)
        .label(name or label)
        .datasource(SOURCE)
        .query({"query": query, "refId": f"variable-{name or label}"})
        .definition(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )
    if not every:
        return found
    everything = models.VariableOption(selected=True, text=["All"], value=["$__all"])
    return found.multi(True).include_all(True).all_value(".*").current(everything)


def marks(name: str, expr: str, *, color: str, title: str, tags: str) -> builders.AnnotationQuery:
    """Return a mark in every panel wherever an expression has a value."""
    return (
        builders.AnnotationQuery()
        .name(name)
        .datasource(SOURCE)
        .enable(True)
        .icon_color(color)
        .expr(expr)
        .step("30s")
        .title_format(title)
        .tag_keys(tags)
        .target(prometheus.Dataquery().ref_id("Marks").expr(expr).datasource(SOURCE).range())
    )


def cost_per_hour(*by: str) -> str:
    """Return the cost of the held GPUs in an hour, by currency, of pools that name a price."""
    price = shown(series.GPU_HOUR_COST, "namespace", "pool", "currency")
    held = shown(series.GPUS_HELD, "namespace", "pool")
    spent = f"{price} * on (namespace, pool) group_left () {held}"
    return f"sum by ({', '.join((*by, 'currency'))}) ({spent})"


def shown(made: MetricSeries, *by: str, **labels: str) -> str:
    """Return a series of the chosen pools, one value for each `by`."""
    return largest(selected(made, NAMESPACE, POOL, **labels), *by)
