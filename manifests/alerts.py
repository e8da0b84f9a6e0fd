"""The alerts on Tandem's own series, written once for both forms in which Prometheus takes rules.

Burn rates follow the SRE Workbook: a long window says that it matters, a short one that it lasts.
Its factors are out of reach for a pool whose objective allows many late requests: of a 90 %
objective, no outage burns faster than 10 times. So the factor is never above the burn rate of half
of all requests being late. A handful of late requests raises no alert.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import yaml

from manifests.promql import largest, selected
from tandem_operator.metrics import series
from tandem_operator.metrics.series import MetricSeries

RUNBOOKS = "https://tandem-inference.io/how-to/runbooks.html"
LEAST_LATE_REQUESTS = 10
OUTAGE_SHARE = 0.5
_HEAD = "# Made by `make crds` from manifests/alerts.py.\n"


class Severity(StrEnum):
    """The urgency of an alert."""

    CRITICAL = "critical"
    """Now, at any hour: requests are late or fail."""
    WARNING = "warning"
    """In working hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One rule.

    Attributes:
        hold: how long `expr` must be true before the alert fires.
        more_labels: the labels that tell rules of one name apart.
    """

    name: str
    expr: str
    hold: str
    severity: Severity
    summary: str
    description: str
    more_labels: tuple[tuple[str, str], ...] = ()

    def rule(self) -> dict[str, Any]:
        """Return the rule as Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.hold,
            "labels": {"severity": self.severity.value, **dict(self.more_labels)},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{RUNBOOKS}#{self.name.lower()}",
            },
        }


@dataclass(frozen=True, slots=True)
class BurnWindows:
    """Two windows of one alert, and the burn rate that both must exceed."""

    factor: float
    long: str
    short: str
    hold: str
    severity: Severity = field(default=Severity.CRITICAL)


BURNS = (
    BurnWindows(14.4, "1h", "5m", "1m"),
    BurnWindows(6.0, "6h", "30m", "5m"),
    BurnWindows(3.0, "1d", "2h", "1h", Severity.WARNING),
    BurnWindows(1.0, "3d", "6h", "3h", Severity.WARNING),
)
BURN_NAMES = {
    Severity.CRITICAL: "TandemErrorBudgetBurnsFast",
    Severity.WARNING: "TandemErrorBudgetBurnsSlowly",
}
POOL = "Pool {{ $labels.namespace }}/{{ $labels.pool }}"


def _of(made: MetricSeries, **labels: str) -> str:
    return largest(selected(made, **labels), "namespace", "pool")


def _condition(kind: str, status: str) -> str:
    return _of(series.CONDITION, condition=kind, status=status)


def _enough_late(window: str) -> str:
    return f"{_of(series.LATE_REQUESTS, window=window)} >= {LEAST_LATE_REQUESTS}"


_ALLOWED_LATE = f"(1 - {_of(series.SLO_OBJECTIVE)})"


def _burn(windows: BurnWindows) -> Alert:
    most = f"clamp_max({OUTAGE_SHARE} / {_ALLOWED_LATE}, {windows.factor:g})"
    lines = (
        f"({_of(series.BURN_RATE, window=windows.long)} > {most})",
        f"({_of(series.BURN_RATE, window=windows.short)} > {most})",
        f"({_enough_late(windows.long)})",
    )
    return Alert(
        name=BURN_NAMES[windows.severity],
        expr="\nand ".join(lines) + "\n",
        hold=windows.hold,
        severity=windows.severity,
        summary=f"{POOL} spends its error budget too fast",
        description=(
            f"{POOL} spent its error budget {{{{ $value | humanize }}}} times as fast as its"
            f" objective allows over {windows.long}. Over {windows.short} the burn rate is"
            f" above the limit too. The limit is the lower of {windows.factor:g} and the"
            " burn rate with half of all requests late."
        ),
        more_labels=(("long_window", windows.long), ("short_window", windows.short)),
    )


OUTAGE = Alert(
    name="TandemPoolOutage",
    expr=(
        f"({_of(series.BURN_RATE, window='5m')} * {_ALLOWED_LATE} > {OUTAGE_SHARE})\n"
        f"and ({_enough_late('5m')})\n"
    ),
    hold="1m",
    severity=Severity.CRITICAL,
    summary=f"{POOL} fails most of its requests",
    description=(
        f"Of the requests of {POOL.lower()} that ended in five minutes,"
        " {{ $value | humanizePercentage }} failed or were late."
    ),
)
STOPPED = Alert(
    name="TandemPoolStoppedServing",
    expr=(
        f"({_condition('Available', 'true')} == 0)\n"
        "and (max by (namespace, pool) (max_over_time("
        f"{selected(series.CONDITION, condition='Available', status='true')}[1d])) == 1)\n"
        f"unless ({_of(series.REST, state='waking')} == 1)\n"
    ),
    hold="3m",
    severity=Severity.CRITICAL,
    summary=f"{POOL} no longer serves",
    description=(
        f"{POOL} served within the last day. Now its router does not answer, or a role has no"
        " Ready pod. Requests wait or fail."
    ),
)
NOT_READY = Alert(
    name="TandemPoolNotReady",
    expr=f"{_condition('Ready', 'true')} == 0",
    hold="15m",
    severity=Severity.WARNING,
    summary=f"{POOL} has not been Ready for 15 minutes",
    description=(
        f"The condition Ready of {POOL.lower()} has not been True for 15 minutes. Its message"
        " names the missing pods, the progress of a rollout, or the refused field of the spec."
    ),
)
STALE = Alert(
    name="TandemMetricsStale",
    expr=f"{_condition('MetricsFresh', 'false')} == 1",
    hold="10m",
    severity=Severity.WARNING,
    summary=f"{POOL} has no fresh metrics of routers or engines",
    description=(
        f"The operator has had no fresh metrics of {POOL.lower()} for ten minutes. The pool still"
        " serves, but no role shrinks, and growth can come late."
    ),
)
INFEASIBLE = Alert(
    name="TandemSLOInfeasible",
    expr=f"{_condition('SLOFeasible', 'false')} == 1",
    hold="30m",
    severity=Severity.WARNING,
    summary=f"No number of replicas keeps the SLO of {POOL.lower()}",
    description=(
        f"More replicas do not help {POOL.lower()}: a single request alone takes longer than its"
        " bound. The message of the condition SLOFeasible names a bound that replicas can keep."
    ),
)
UNATTENDED = Alert(
    name="TandemPoolUnattended",
    expr=f"time() - {_of(series.LAST_PASS)} > 300",
    hold="2m",
    severity=Severity.CRITICAL,
    summary=f"The operator does not finish a pass over {POOL.lower()}",
    description=(
        f"The last pass over {POOL.lower()} ended {{{{ $value | humanizeDuration }}}} ago. The pool"
        " serves at its present size. Its other series are as old as that pass."
    ),
)
PASSES_FAIL = Alert(
    name="TandemPassesFail",
    expr=(
        "sum by (namespace, job)"
        f" (increase({selected(series.RECONCILES, result='error')}[10m])) > 3"
    ),
    hold="15m",
    severity=Severity.WARNING,
    summary="Passes of the Tandem operator fail again and again",
    description=(
        "The operator in namespace {{ $labels.namespace }} failed {{ $value | humanize }} passes in"
        " ten minutes. Its log names the pools and the reasons."
    ),
)
DOWN = Alert(
    name="TandemOperatorDown",
    expr=(
        f"(max by (namespace, job) ({series.LEADER.name}) == 0)\n"
        f"or (max by (namespace, job) (max_over_time({series.LEADER.name}[1h]))"
        f" unless max by (namespace, job) ({series.LEADER.name}))\n"
        f"or absent({series.LEADER.name})\n"
    ),
    hold="5m",
    severity=Severity.CRITICAL,
    summary="No Tandem operator acts",
    description=(
        "No process of the operator holds the Lease, or Prometheus does not reach it. Pools serve"
        " at their present size. They do not grow with their load."
    ),
)

ALERTS: Sequence[tuple[str, tuple[Alert, ...]]] = (
    ("tandem-slo", (OUTAGE, *map(_burn, BURNS), INFEASIBLE)),
    ("tandem-pools", (STOPPED, NOT_READY, STALE, UNATTENDED)),
    ("tandem-operator", (PASSES_FAIL, DOWN)),
)


def every_alert() -> Iterator[Alert]:
    """Yield all rules, of all groups."""
    for _, group in ALERTS:
        yield from group


def render() -> str:
    """Return a file of rules for Prometheus; a PrometheusRule has the same under `spec`."""
    groups = [{"name": name, "rules": [one.rule() for one in group]} for name, group in ALERTS]
    return _HEAD + yaml.dump({"groups": groups}, Dumper=_Rules, sort_keys=False, width=1000)


class _Rules(yaml.SafeDumper):
    """Expressions of several lines stay readable."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Rules.add_representer(str, _text)
