"""The rows of a pool's dashboard on its replicas: fleets, demand, decisions."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.builders.timeseries import Panel

from manifests.dashboards import panels
from manifests.dashboards.panels import BOUNDS, Query, Unit, lines, number, states
from manifests.dashboards.router import rate_of
from manifests.dashboards.variables import NAMESPACE, POOL, cost_per_hour, shown
from manifests.promql import selected
from tandem_operator.core.role import Role
from tandem_operator.metrics import series


def scaled(made: Dashboard) -> Dashboard:
    """Add the panels of the replicas: how many, for which load, and why."""
    return _decisions(_demand(_fleets(made)))


def _fleets(made: Dashboard) -> Dashboard:
    made = made.with_row(Row("Fleets"))
    for role in Role:
        made = made.with_panel(_replicas(role)).with_panel(_capacity(role))
    return made


def _replicas(role: Role) -> Panel:
    rows = (
        (series.DESIRED, "wanted"),
        (series.READY, "ready"),
        (series.MIN_REPLICAS, "fewest"),
        (series.MAX_REPLICAS, "most"),
    )
    return lines(
        f"Replicas of {role.value}",
        "Replicas that Tandem would set and those that are Ready, between the bounds of the spec.",
        *(Query(shown(made, role=role.value), name) for made, name in rows),
        unit=Unit.COUNT,
        width=12,
        stepped=True,
        dashed=BOUNDS,
    )


def _capacity(role: Role) -> Panel:
    return lines(
        f"Utilisation of {role.value}",
        "Arriving requests as a share of what the Ready replicas can serve inside the SLO.",
        Query(shown(series.UTILIZATION, role=role.value), "utilisation"),
        Query(shown(series.MODEL_ERROR, role=role.value), "error of the latency model"),
        unit=Unit.SHARE,
        width=12,
    )


def _demand(made: Dashboard) -> Dashboard:
    return (
        made.with_row(Row("Demand and capacity"))
        .with_panel(
            lines(
                "Arrivals, forecast and capacity",
                "Arrivals now, the mean and the high case of the forecast over one cold start, and"
                " what each fleet can serve inside the SLO.",
                Query(shown(series.ARRIVALS), "arrivals"),
                Query(shown(series.FORECAST), "forecast, mean"),
                Query(shown(series.FORECAST_HIGH), "forecast, high case"),
                Query(shown(series.CAPACITY, "role"), "capacity of {{role}}"),
                unit=Unit.REQUESTS_PER_S,
                width=16,
            )
        )
        .with_panel(
            lines(
                "GPUs held",
                "GPUs of scheduled engine pods, beside the budget of the pool. A pod on CPU counts"
                " as one.",
                Query(shown(series.GPUS_HELD), "held"),
                Query(shown(series.GPU_BUDGET), "budget"),
                unit=Unit.COUNT,
                stepped=True,
                dashed=BOUNDS,
            )
        )
        .with_panel(
            lines(
                "Cold start",
                "P90 of the time from a new pod until it is Ready. The forecast looks that far.",
                Query(shown(series.COLD_START, "role"), "{{role}}"),
                unit=Unit.SECONDS,
            )
        )
        .with_panel(
            lines(
                "Cost",
                "Price of the GPUs held, by the hour and by a million generated tokens. Only pools"
                " with spec.cost have one.",
                Query(cost_per_hour(), "{{currency}} per hour"),
                Query(
                    f"{cost_per_hour()} / 3600 * 1e6 / on () group_left ()"
                    f" {rate_of('output_tokens_total')}",
                    "{{currency}} per million tokens",
                ),
                unit=Unit.MONEY,
            )
        )
        .with_panel(
            number(
                "Age of the engine metrics",
                "Age of the oldest engine sample. Without fresh ones no fleet shrinks.",
                Query(shown(series.METRICS_AGE), "age"),
                unit=Unit.SECONDS,
                width=4,
                steps=((None, panels.GREEN), (30.0, panels.ORANGE), (120.0, panels.RED)),
            )
        )
        .with_panel(
            number(
                "Since the last pass",
                "Time since the operator ended a pass over the pool. The other series are as old.",
                Query(f"time() - {shown(series.LAST_PASS)}", "age"),
                unit=Unit.SECONDS,
                width=4,
                steps=((None, panels.GREEN), (60.0, panels.ORANGE), (300.0, panels.RED)),
            )
        )
    )


def _decisions(made: Dashboard) -> Dashboard:
    reasons = selected(series.DECISIONS, NAMESPACE, POOL)
    return (
        made.with_row(Row("Decisions"))
        .with_panel(
            states(
                "Reason for the present count",
                "The reason that Tandem gives for the replicas of each role, over time.",
                Query(shown(series.DECISION_REASON, "role", "reason"), "{{role}}: {{reason}}"),
                words={1: ("in force", "blue")},
            )
        )
        .with_panel(
            lines(
                "Decisions by reason",
                "Passes per second by the reason that they gave. Each pass decides once for each"
                " role.",
                Query(
                    f"sum by (role, reason) (rate({reasons}[$__rate_interval]))",
                    "{{role}}: {{reason}}",
                ),
                unit=Unit.PASSES_PER_S,
                width=12,
                stacked=True,
            )
        )
        .with_panel(
            states(
                "Limits that hold a count below the need",
                "A limit of the spec or of a quota that forbids replicas which the load needs.",
                Query(shown(series.LIMIT_HIT, "role", "limit"), "{{role}}: {{limit}}"),
                words={1: ("holds", panels.ORANGE)},
            )
        )
        .with_panel(
            states(
                "Sleep",
                "Whether the pool is awake, at zero or waking. Only pools with"
                " scaling.scaleToZeroAfter have a state.",
                Query(shown(series.REST, "state"), "{{state}}"),
                words={1: ("now", "blue")},
            )
        )
        .with_panel(
            lines(
                "Latest wake",
                "Time of the latest wake from zero by part, and how many there were.",
                Query(shown(series.WAKE_SECONDS, "part"), "{{part}}"),
                Query(shown(series.WAKES), "wakes"),
                unit=Unit.SECONDS,
                stepped=True,
            )
        )
        .with_panel(
            states(
                "Conditions that are True",
                "The conditions of the pool over time. CapacityBlocked, FieldConflict, Stalled and"
                " Reconciling are bad when True.",
                Query(shown(series.CONDITION, "condition", status="true"), "{{condition}}"),
                words={0: ("not True", "transparent"), 1: ("True", "blue")},
            )
        )
    )
