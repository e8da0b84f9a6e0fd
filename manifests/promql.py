"""The parts of Prometheus' language that alerts and dashboards share: how a series is selected."""

from tandem_operator.metrics.series import MetricSeries


def selected(made: MetricSeries | str, *matchers: str, **labels: str) -> str:
    """Return the series that has these labels and matches those matchers."""
    name = made if isinstance(made, str) else made.name
    chosen = ", ".join((*matchers, *(f'{label}="{value}"' for label, value in labels.items())))
    return f"{name}{{{chosen}}}" if chosen else name


def quantile(share: str, classic: str, *, native: str) -> str:
    """Return a percentile of a histogram, by its buckets or by the server's native one."""
    return " or ".join(f"histogram_quantile({share}, {of})" for of in (classic, native))


def largest(of: str, *by: str) -> str:
    """Return one value for each `by`: two operators can show one pool while the Lease moves."""
    return f"max by ({', '.join(by)}) ({of})" if by else f"max({of})"
