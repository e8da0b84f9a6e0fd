"""The dashboard of one pool: its SLO, the causes of late requests, and Tandem's actions."""

from grafana_foundation_sdk.builders.dashboard import AnnotationQuery, Dashboard, Row

from manifests.dashboards import panels
from manifests.dashboards.panels import (
    BAD_BELOW_ONE,
    BOUNDS,
    BUDGET_LEFT,
    BURN,
    Query,
    Unit,
    lines,
    number,
)
from manifests.dashboards.router import blamed, rate_of, routed
from manifests.dashboards.scaling import scaled
from manifests.dashboards.variables import NAMESPACE, POOL, choice, framed, marks, shown
from manifests.promql import selected
from tandem_operator.metrics import series

UID = "tandem-pool"
QUANTILES = {"0.5": "p50", "0.95": "p95", "0.99": "p99"}
WINDOWS = ("5m", "1h", "6h", "1d", "3d")


def dashboard() -> Dashboard:
    """Return the dashboard."""
    made = (
        framed(
            uid=UID,
            title="Tandem / Pool",
            description="One pool: its SLO, the causes of late requests, its fleets and decisions.",
            since="3h",
        )
        .with_variable(choice("namespace", of=series.LAST_PASS, every=False))
        .with_variable(choice("pool", of=series.LAST_PASS, within=(NAMESPACE,), every=False))
        .annotation(_changed("grows", ">", panels.GREEN))
        .annotation(_changed("shrinks", "<", "blue"))
    )
    for row in (_now, _budget, _latency, blamed, scaled, routed):
        made = row(made)
    return made


def _changed(verb: str, compared: str, color: str) -> AnnotationQuery:
    """Return a mark where the wanted replicas of a role change, with the reason of that moment.

    `tandem_decisions_total` cannot mark them: it counts every pass, and most change nothing.
    """
    wanted = selected(series.DESIRED, NAMESPACE, POOL)
    now, before = f"max by (role) ({wanted})", f"max by (role) ({wanted} offset $__interval)"
    expr = (
        f"{shown(series.DECISION_REASON, 'role', 'reason')}"
        f" * on (role) group_left () ({now} {compared} bool {before}) > 0"
    )
    return marks(
        f"A fleet {verb}",
        expr,
        color=color,
        title=f"{{{{role}}}} {verb}: {{{{reason}}}}",
        tags="role,reason",
    )


def _now(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Now"))
        .with_panel(
            number(
                "Ready",
                "1 if the condition Ready of the pool is True. Its message says what is missing.",
                Query(shown(series.CONDITION, condition="Ready", status="true"), "ready"),
                width=3,
                unit=Unit.COUNT,
                steps=BAD_BELOW_ONE,
            )
        )
        .with_panel(
            number(
                "Mode",
                "Auto: Tandem sets the counts. Recommend and Paused: it only says what it would"
                " set.",
                Query(shown(series.MODE, "mode"), "{{mode}}"),
                width=3,
                unit=Unit.TEXT,
                as_name=True,
            )
        )
        .with_panel(
            number(
                "Attainment",
                "Share of good requests among those that ended recently.",
                Query(shown(series.ATTAINMENT), "attainment"),
                width=3,
                unit=Unit.SHARE,
            )
        )
        .with_panel(
            number(
                "Error budget left, 1h",
                "Part of the error budget of the last hour that is left. Below 0 it is overspent.",
                Query(shown(series.BUDGET_REMAINING, window="1h"), "left"),
                width=3,
                unit=Unit.SHARE,
                steps=BUDGET_LEFT,
            )
        )
        .with_panel(
            number(
                "Error budget left, 30 days",
                "Part of the error budget of 30 days that is left, as far back as the pool is"
                " known.",
                Query(shown(series.BUDGET_REMAINING, window="30d"), "left"),
                width=3,
                unit=Unit.SHARE,
                steps=BUDGET_LEFT,
            )
        )
        .with_panel(
            number(
                "Burn rate, 1h",
                "Speed at which the pool spends its error budget. At 1, the speed is what the"
                " objective allows.",
                Query(shown(series.BURN_RATE, window="1h"), "burn rate"),
                width=3,
                unit=Unit.TIMES,
                steps=BURN,
            )
        )
        .with_panel(
            number(
                "Requests",
                "Requests per second that arrive now.",
                Query(shown(series.ARRIVALS), "requests"),
                width=3,
                unit=Unit.REQUESTS_PER_S,
            )
        )
        .with_panel(
            number(
                "Goodput per GPU",
                "Good requests per second and GPU held.",
                Query(f"{shown(series.GOODPUT)} / ({shown(series.GPUS_HELD)} > 0)", "goodput"),
                width=3,
                unit=Unit.GOODPUT_PER_GPU,
            )
        )
    )


def _budget(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("SLO"))
        .with_panel(
            lines(
                "Attainment beside the objective",
                "Share of good requests among those that ended recently, and the share that must"
                " be good.",
                Query(shown(series.ATTAINMENT), "attainment"),
                Query(shown(series.SLO_OBJECTIVE), "objective"),
                unit=Unit.SHARE,
                dashed=BOUNDS,
                lowest=None,
            )
        )
        .with_panel(
            lines(
                "Error budget left",
                "Part of the error budget that is left. Below 0 it is overspent.",
                Query(shown(series.BUDGET_REMAINING, "window"), "{{window}}"),
                unit=Unit.SHARE,
                lowest=None,
            )
        )
        .with_panel(
            lines(
                "Burn rate",
                "Speed at which the pool spends its error budget in each window. At 1, the speed is"
                " what the objective allows.",
                *(Query(shown(series.BURN_RATE, window=window), window) for window in WINDOWS),
                unit=Unit.TIMES,
            )
        )
    )


def _latency(made: Dashboard) -> Dashboard:
    target, per = shown(series.SLO_TTFT), shown(series.SLO_TTFT_PER_THOUSAND)
    ended = rate_of("requests_total", matcher='outcome!="refused"')
    mean = f"{rate_of('prompt_tokens_total')} / {ended}"
    return (
        made.with_row(Row("Latency"))
        .with_panel(
            lines(
                "TTFT beside its bounds",
                "Time to first token of recent requests. The bound grows with the prompt: one line"
                " is of an empty prompt, one of the mean prompt.",
                *_quantiles(series.TTFT),
                Query(target, "bound, empty prompt"),
                Query(f"{target} + {per} * {mean} / 1000", "bound, mean prompt"),
                unit=Unit.SECONDS,
                width=12,
                dashed=BOUNDS,
            )
        )
        .with_panel(
            lines(
                "TPOT beside its bound",
                "Time per output token after the first, of recent requests.",
                *_quantiles(series.TPOT),
                Query(shown(series.SLO_TPOT), "bound"),
                unit=Unit.SECONDS,
                width=12,
                dashed=BOUNDS,
            )
        )
    )


def _quantiles(made: series.MetricSeries) -> list[Query]:
    return [Query(shown(made, quantile=value), name) for value, name in QUANTILES.items()]
