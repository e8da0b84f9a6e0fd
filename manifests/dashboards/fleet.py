"""The dashboard of all pools: which keep their SLO, what they hold, and which need a look."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from manifests.dashboards import panels
from manifests.dashboards.panels import (
    BAD_BELOW_ONE,
    BUDGET_LEFT,
    BURN,
    Column,
    Query,
    Unit,
    columns,
    lines,
    number,
    states,
)
from manifests.dashboards.variables import NAMESPACE, POOL, choice, cost_per_hour, framed, shown
from manifests.promql import selected
from tandem_operator.metrics import series
from tandem_operator.metrics.series import MetricSeries

UID = "tandem-fleet"
ONE_POOL = (
    "/d/tandem-pool?var-datasource=${datasource}&var-namespace=${__data.fields.namespace}"
    "&var-pool=${__data.fields.pool}&${__url_time_range}"
)
NAME = "{{namespace}}/{{pool}}"
YES_OR_NO = {0: ("no", panels.RED), 1: ("yes", panels.GREEN)}


def by_pool(made: MetricSeries, **labels: str) -> str:
    """Return a series with one value for each pool."""
    return shown(made, "namespace", "pool", **labels)


def total(made: MetricSeries) -> str:
    """Return the sum over all pools; zero where there is no pool."""
    return f"sum({by_pool(made)})"


READY = by_pool(series.CONDITION, condition="Ready", status="true")
ATTAINMENT, OBJECTIVE = by_pool(series.ATTAINMENT), by_pool(series.SLO_OBJECTIVE)
TTFT_P95, TPOT_P95 = by_pool(series.TTFT, quantile="0.95"), by_pool(series.TPOT, quantile="0.95")
BUDGET_1H = by_pool(series.BUDGET_REMAINING, window="1h")


def dashboard() -> Dashboard:
    """Return the dashboard."""
    made = (
        framed(
            uid=UID,
            title="Tandem / Fleet",
            description="All pools: which keep their SLO, what they hold and what they serve.",
            since="6h",
        )
        .with_variable(choice("namespace", of=series.LAST_PASS, every=True))
        .with_variable(choice("pool", of=series.LAST_PASS, within=(NAMESPACE,), every=True))
    )
    for row in (_now, _kept, _served):
        made = row(made)
    return made


def _now(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Now"))
        .with_panel(
            number(
                "Pools",
                "Pools for which an operator has made a pass.",
                Query(f"count({by_pool(series.LAST_PASS)})", "pools"),
                unit=Unit.COUNT,
            )
        )
        .with_panel(
            number(
                "Ready",
                "Share of pools whose condition Ready is True.",
                Query(f"avg({READY})", "ready"),
                unit=Unit.SHARE,
                steps=BAD_BELOW_ONE,
            )
        )
        .with_panel(
            number(
                "Inside the SLO",
                "Share of pools whose attainment is at least their objective."
                " Pools without recent requests do not count.",
                Query(f"avg({ATTAINMENT} >= bool {OBJECTIVE})", "inside"),
                unit=Unit.SHARE,
                steps=BAD_BELOW_ONE,
            )
        )
        .with_panel(
            number(
                "Requests",
                "Requests per second that arrive at all pools.",
                Query(total(series.ARRIVALS), "requests"),
                unit=Unit.REQUESTS_PER_S,
            )
        )
        .with_panel(
            number(
                "Goodput",
                "Good requests per second of all pools.",
                Query(total(series.GOODPUT), "good"),
                unit=Unit.REQUESTS_PER_S,
            )
        )
        .with_panel(
            number(
                "GPUs held",
                "GPUs of all scheduled engine pods. A pod on CPU counts as one.",
                Query(total(series.GPUS_HELD), "GPUs"),
                unit=Unit.COUNT,
            )
        )
        .with_panel(
            columns(
                "Pools",
                "One row for each pool. A click on its name opens its own dashboard.",
                *_columns(),
                by=("namespace", "pool"),
                link=("Open the pool", ONE_POOL),
            )
        )
    )


def _columns() -> tuple[Column, ...]:
    kept = ((None, panels.RED), (1.0, panels.GREEN))
    within = ((None, panels.GREEN), (1.0, panels.RED))
    return (
        Column("Ready", READY, Unit.COUNT, BAD_BELOW_ONE),
        Column("attainment", ATTAINMENT, Unit.SHARE),
        Column("of objective", f"{ATTAINMENT} / {OBJECTIVE}", Unit.SHARE, kept),
        Column("budget left, 1h", BUDGET_1H, Unit.SHARE, BUDGET_LEFT),
        Column("TTFT p95", TTFT_P95, Unit.SECONDS),
        Column("TPOT p95", TPOT_P95, Unit.SECONDS),
        Column("of TPOT bound", f"{TPOT_P95} / {by_pool(series.SLO_TPOT)}", Unit.SHARE, within),
        Column("requests/s", by_pool(series.ARRIVALS), Unit.REQUESTS_PER_S),
        Column("prefill ready", by_pool(series.READY, role="prefill"), Unit.COUNT),
        Column("prefill wanted", by_pool(series.DESIRED, role="prefill"), Unit.COUNT),
        Column("decode ready", by_pool(series.READY, role="decode"), Unit.COUNT),
        Column("decode wanted", by_pool(series.DESIRED, role="decode"), Unit.COUNT),
        Column("GPUs", by_pool(series.GPUS_HELD), Unit.COUNT),
    )


def _kept(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("SLO"))
        .with_panel(
            lines(
                "Attainment as a share of the objective",
                "Attainment divided by the objective. Below 100% the pool misses its objective.",
                Query(f"{ATTAINMENT} / {OBJECTIVE}", NAME),
                unit=Unit.SHARE,
                lowest=None,
            )
        )
        .with_panel(
            lines(
                "Error budget left, 1h",
                "Part of the error budget of the last hour that is left. Below 0 it is overspent.",
                Query(BUDGET_1H, NAME),
                unit=Unit.SHARE,
                lowest=None,
            )
        )
        .with_panel(
            lines(
                "Burn rate, 1h",
                "Speed at which the pool spends its error budget. At 1, the speed is what the"
                " objective allows.",
                Query(by_pool(series.BURN_RATE, window="1h"), NAME),
                unit=Unit.TIMES,
            )
        )
        .with_panel(
            lines(
                "TTFT p95",
                "95 % of recent requests had their first token within this time."
                " The dashboard of a pool shows the bounds.",
                Query(TTFT_P95, NAME),
                unit=Unit.SECONDS,
            )
        )
        .with_panel(
            lines(
                "TPOT p95 as a share of its bound",
                "Above 100% more than 5 % of recent requests miss the TPOT bound.",
                Query(f"{TPOT_P95} / {by_pool(series.SLO_TPOT)}", NAME),
                unit=Unit.SHARE,
            )
        )
        .with_panel(
            states(
                "Ready",
                "Whether the condition Ready of a pool is True.",
                Query(READY, NAME),
                words=YES_OR_NO,
                width=8,
            )
        )
    )


def _served(made: Dashboard) -> Dashboard:
    goodput, gpus = by_pool(series.GOODPUT), by_pool(series.GPUS_HELD)
    spent = f"increase({selected(series.GPU_SECONDS, NAMESPACE, POOL)}[$__range])"
    return (
        made.with_row(Row("Load and GPUs"))
        .with_panel(
            lines(
                "Arrivals",
                "Requests per second that arrive at each pool.",
                Query(by_pool(series.ARRIVALS), NAME),
                unit=Unit.REQUESTS_PER_S,
                stacked=True,
            )
        )
        .with_panel(
            lines(
                "GPUs held",
                "GPUs of the scheduled engine pods of each pool, beside the sum of all budgets.",
                Query(gpus, NAME),
                Query(total(series.GPU_BUDGET), "budget of all pools that have one"),
                unit=Unit.COUNT,
                stepped=True,
                dashed=panels.BOUNDS,
            )
        )
        .with_panel(
            lines(
                "Goodput per GPU",
                "Good requests per second and GPU. More is better at the same attainment.",
                Query(f"{goodput} / ({gpus} > 0)", NAME),
                unit=Unit.GOODPUT_PER_GPU,
            )
        )
        .with_panel(
            lines(
                "Highest utilisation",
                "Arriving requests as a share of what the busier role can serve inside the SLO.",
                Query(by_pool(series.UTILIZATION), NAME),
                unit=Unit.SHARE,
                width=12,
            )
        )
        .with_panel(
            states(
                "Limits that hold a pool below the need of its load",
                "A limit of the spec or of a quota that forbids replicas which the load needs.",
                Query(
                    shown(series.LIMIT_HIT, "namespace", "pool", "role", "limit"),
                    NAME + " {{role}}: {{limit}}",
                ),
                words={1: ("holds", panels.ORANGE)},
                width=12,
            )
        )
        .with_panel(
            lines(
                "Cost per hour",
                "Price of the GPUs held now, for an hour. Only pools with spec.cost have one.",
                Query(cost_per_hour("namespace", "pool"), NAME + " {{currency}}"),
                unit=Unit.MONEY,
                width=12,
                stacked=True,
            )
        )
        .with_panel(
            columns(
                "GPU-hours in the shown time",
                "GPU-hours that each pool held. Two operators never count the same second.",
                Column(
                    "GPU-hours",
                    f"sum by (namespace, pool) ({spent}) / 3600",
                    Unit.GPU_HOURS,
                ),
                Column("burn rate, 1h", by_pool(series.BURN_RATE, window="1h"), Unit.TIMES, BURN),
                by=("namespace", "pool"),
                link=("Open the pool", ONE_POOL),
                height=8,
            ).span(12)
        )
    )
