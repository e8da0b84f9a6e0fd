"""The dashboard of the operator itself: its actions, their speed, failures, and scrapes."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from manifests.dashboards import panels
from manifests.dashboards.panels import (
    BAD_ABOVE_ZERO,
    BAD_BELOW_ONE,
    Query,
    Unit,
    lines,
    number,
    states,
)
from manifests.dashboards.variables import NAMESPACE, POOL, choice, framed
from manifests.promql import largest, quantile, selected
from tandem_operator.metrics import series
from tandem_operator.metrics.series import MetricSeries

UID = "tandem-operator"
WHERE = 'namespace=~"$operator"'
JOB = 'job=~"$job"'
POOLS = "{{namespace}}/{{pool}}"
QUANTILES = ("0.5", "0.95", "0.99")


def of_process(made: MetricSeries | str, *matchers: str) -> str:
    """Return a series of the operator's processes; `$operator` is the namespace where they run."""
    return selected(made, WHERE, JOB, *matchers)


def of_pools(made: MetricSeries) -> str:
    """Return a series of the chosen pools of this operator; their `namespace` is their own."""
    return largest(selected(made, JOB, NAMESPACE, POOL), "namespace", "pool")


def dashboard() -> Dashboard:
    """Return the dashboard."""
    made = (
        framed(
            uid=UID,
            title="Tandem / Operator",
            description="The operator itself: passes, failures, watches and its own scrape.",
            since="6h",
        )
        .with_variable(choice("namespace", of=series.LEADER, every=True, name="operator"))
        .with_variable(choice("job", of=series.LEADER, within=(WHERE,), every=True))
        .with_variable(choice("namespace", of=series.LAST_PASS, within=(JOB,), every=True))
        .with_variable(choice("pool", of=series.LAST_PASS, within=(JOB, NAMESPACE), every=True))
    )
    for row in (_now, _passes, _api, _scrape):
        made = row(made)
    return made


def _now(made: Dashboard) -> Dashboard:
    passes = of_process(series.RECONCILES, 'result="error"')
    return (
        made.with_row(Row("Now"))
        .with_panel(
            number(
                "Processes that act",
                "Processes that hold the Lease. One is right.",
                Query(f"sum({of_process(series.LEADER)})", "acting"),
                unit=Unit.COUNT,
                steps=((None, panels.RED), (1.0, panels.GREEN), (2.0, panels.ORANGE)),
            )
        )
        .with_panel(
            number(
                "Version",
                "Version of the operator.",
                Query(f"max by (version) ({of_process(series.BUILD_INFO)})", "{{version}}"),
                unit=Unit.TEXT,
                as_name=True,
            )
        )
        .with_panel(
            number(
                "Pools",
                "Pools for which the operator has made a pass.",
                Query(f"count({of_pools(series.LAST_PASS)})", "pools"),
                unit=Unit.COUNT,
            )
        )
        .with_panel(
            number(
                "Failed passes, 1h",
                "Passes that an error ended within the last hour. The log names pool and reason.",
                Query(f"round(sum(increase({passes}[1h])))", "failed"),
                unit=Unit.COUNT,
                steps=BAD_ABOVE_ZERO,
            )
        )
        .with_panel(
            number(
                "Oldest pass",
                "Time since the last pass over the pool that has waited longest.",
                Query(f"max(time() - {of_pools(series.LAST_PASS)})", "oldest"),
                unit=Unit.SECONDS,
                steps=((None, panels.GREEN), (60.0, panels.ORANGE), (300.0, panels.RED)),
            )
        )
        .with_panel(
            number(
                "Scraped",
                "Share of the operator's processes that Prometheus reaches.",
                Query(f"avg({of_process('up')})", "up"),
                unit=Unit.SHARE,
                steps=BAD_BELOW_ONE,
            )
        )
    )


def _passes(made: Dashboard) -> Dashboard:
    buckets = of_process(f"{series.RECONCILE_SECONDS.name}_bucket")
    whole = of_process(series.RECONCILE_SECONDS)
    return (
        made.with_row(Row("Passes"))
        .with_panel(
            lines(
                "Passes by result",
                "Passes over pools per second. An error ends one pass, and the next tries again.",
                Query(
                    f"sum by (result) (rate({of_process(series.RECONCILES)}[$__rate_interval]))",
                    "{{result}}",
                ),
                unit=Unit.PASSES_PER_S,
                stacked=True,
            )
        )
        .with_panel(
            lines(
                "Duration of a pass",
                "Percentiles of the time from the start of a pass to its last write.",
                *(
                    Query(
                        quantile(
                            edge,
                            f"sum by (le) (rate({buckets}[$__rate_interval]))",
                            native=f"sum(rate({whole}[$__rate_interval]))",
                        ),
                        f"p{edge[2:].ljust(2, '0')}",
                    )
                    for edge in QUANTILES
                ),
                unit=Unit.SECONDS,
            )
        )
        .with_panel(
            lines(
                "Pools due for a pass",
                "Depth of the work queue. It empties within seconds.",
                Query(largest(of_process(series.QUEUE_DEPTH), "pod"), "{{pod}}"),
                unit=Unit.COUNT,
            )
        )
        .with_panel(
            lines(
                "Time since the last pass, by pool",
                "All series of a pool are as old as its last pass.",
                Query(f"time() - {of_pools(series.LAST_PASS)}", POOLS),
                unit=Unit.SECONDS,
                width=12,
            )
        )
        .with_panel(
            lines(
                "Age of the engine metrics, by pool",
                "Age of the oldest engine sample. Without fresh ones no fleet of the pool shrinks.",
                Query(of_pools(series.METRICS_AGE), POOLS),
                unit=Unit.SECONDS,
                width=12,
            )
        )
    )


def _api(made: Dashboard) -> Dashboard:
    failed = of_process(series.RECONCILES, 'result="error"')
    restarts, conflicts = of_process(series.WATCH_RESTARTS), of_process(series.CONFLICTS)
    return (
        made.with_row(Row("API server"))
        .with_panel(
            lines(
                "Failed passes",
                "Passes per minute that an error ended, mostly a refusal of the API server.",
                Query(f"60 * sum(rate({failed}[$__rate_interval]))", "failed"),
                unit=Unit.PASSES_PER_MINUTE,
            )
        )
        .with_panel(
            lines(
                "Restarts of watches",
                "Watches that broke and were begun again. A few an hour are normal.",
                Query(f"sum(increase({restarts}[$__rate_interval]))", "restarts"),
                unit=Unit.COUNT,
            )
        )
        .with_panel(
            lines(
                "Fields of other managers",
                "Fields of which Tandem found another field manager. The condition FieldConflict"
                " names them.",
                Query(f"sum(increase({conflicts}[$__rate_interval]))", "fields"),
                unit=Unit.COUNT,
            )
        )
    )


def _scrape(made: Dashboard) -> Dashboard:
    cpu = of_process("process_cpu_seconds_total")
    return (
        made.with_row(Row("Processes and their scrape"))
        .with_panel(
            states(
                "Who acts",
                "The process that holds the Lease. The others wait for it.",
                Query(largest(of_process(series.LEADER), "pod"), "{{pod}}"),
                words={0: ("waits", "blue"), 1: ("acts", panels.GREEN)},
                width=8,
            )
        )
        .with_panel(
            states(
                "Reached by Prometheus",
                "Whether the last scrape of each process succeeded.",
                Query(largest(of_process("up"), "pod"), "{{pod}}"),
                words={0: ("no", panels.RED), 1: ("yes", panels.GREEN)},
                width=8,
            )
        )
        .with_panel(
            lines(
                "Duration of a scrape",
                "Time that Prometheus needs for one scrape of each process.",
                Query(largest(of_process("scrape_duration_seconds"), "pod"), "{{pod}}"),
                unit=Unit.SECONDS,
            )
        )
        .with_panel(
            lines(
                "Cores in use",
                "Cores that each process uses.",
                Query(f"sum by (pod) (rate({cpu}[$__rate_interval]))", "{{pod}}"),
                unit=Unit.CORES,
                width=12,
            )
        )
        .with_panel(
            lines(
                "Memory",
                "Resident memory of each process.",
                Query(largest(of_process("process_resident_memory_bytes"), "pod"), "{{pod}}"),
                unit=Unit.BYTES,
                width=12,
            )
        )
    )
