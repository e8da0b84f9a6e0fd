"""The page of all series that the operator exports, made from `metrics/series`."""

from tandem_operator.core.objective.error_budget import BURN_WINDOWS_S
from tandem_operator.metrics.series import SERIES, MetricSeries

HEAD = f"""\
# Metrics of the operator

The operator exports these series on `:8080/metrics`. `make crds` writes this page from
`operator/tandem_operator/metrics/series.py`. Routers have
[series of their own](contracts.md#router-metrics-metrics-internal-port).

* A series is absent while its value is unknown. Unknown is never zero.
* All series of a pool disappear when the pool is deleted. If its spec is refused, only its
  conditions, its Ready pods and the ages stay.
* `role` is `prefill` or `decode`. `window` is {", ".join(BURN_WINDOWS_S)}, except where said.
* A counter begins at zero when the operator starts. `rate()` and `increase()` handle that. Each
  counter also has a series that ends in `_created`, the time of its start.
* The labels `namespace` and `pool` are those of the pool. So a scrape needs `honor_labels: true`.
  The chart's ServiceMonitor has it.
* [The alerts](../how-to/connect-prometheus.md#install-the-alerts) use these series.
"""


def render() -> str:
    """Return the whole page: series of pools, then those of the process."""
    of_pools = [each for each in SERIES if each.of_pool]
    of_process = [each for each in SERIES if not each.of_pool]
    return (
        HEAD
        + f"\n## Of each pool\n\nAll have the labels `namespace` and `pool`.\n\n{_table(of_pools)}"
        + f"\n## Of the process\n\n{_table(of_process)}"
    )


def _table(rows: list[MetricSeries]) -> str:
    return "| series | type | more labels | unit | meaning |\n|---|---|---|---|---|\n" + "".join(
        f"| `{each.name}` | {each.kind} | {_labels(each)} | {each.unit} | {each.meaning} |\n"
        for each in rows
    )


def _labels(each: MetricSeries) -> str:
    more = (label for label in each.labels if label not in ("namespace", "pool"))
    return ", ".join(f"`{label}`" for label in more)
