"""The operator's own metrics, under the names that docs/reference/contracts.md lists."""

from collections.abc import Mapping

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from tandem_operator.core.decision import Decision
from tandem_operator.core.observation import Quantiles

_POOL = ("namespace", "pool")
_ROLE = (*_POOL, "role")


class Exported:
    """All instruments of one process. Series of a pool vanish with the pool."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        self.desired = gauge("tandem_pool_desired_replicas", "Replicas Tandem would set", _ROLE)
        self.ready = gauge("tandem_pool_ready_replicas", "Ready engine pods", _ROLE)
        self.attainment = gauge("tandem_pool_attainment_ratio", "Good of all requests", _POOL)
        self.goodput = gauge(
            "tandem_pool_goodput_requests_per_second", "Good requests per second", _POOL
        )
        self.budget_remaining = gauge(
            "tandem_pool_error_budget_remaining_ratio",
            "Share of the window's error budget that is left; below 0, overspent",
            (*_POOL, "window"),
        )
        self.budget_burn_rate = gauge(
            "tandem_pool_error_budget_burn_rate",
            "How many times as fast as allowed the window spends the error budget",
            (*_POOL, "window"),
        )
        self.ttft = gauge("tandem_pool_ttft_seconds", "TTFT", (*_POOL, "quantile"))
        self.tpot = gauge("tandem_pool_tpot_seconds", "TPOT", (*_POOL, "quantile"))
        self.gpus_held = gauge("tandem_pool_gpus_held", "GPUs, or units, of placed pods", _POOL)
        self.model_error = gauge(
            "tandem_pool_model_error_ratio", "Error of the learned models", _ROLE
        )
        self.reason = gauge(
            "tandem_decision_reason", "Why a role's count is what it is", (*_ROLE, "reason")
        )
        self.metrics_age = gauge("tandem_metrics_age_seconds", "Age of the oldest sample", _POOL)
        self.queue_depth = gauge("tandem_queue_depth", "Pools due for a pass")
        self.leader = gauge("tandem_leader", "1 if this process acts")
        self.reconciles = Counter(
            "tandem_reconcile", "Passes over pools", ("result",), registry=registry
        )
        self.reconcile_seconds = Histogram(
            "tandem_reconcile_seconds", "Duration of a pass", registry=registry
        )
        self.conflicts = Counter(
            "tandem_apply_conflicts", "Fields that others owned", registry=registry
        )
        self.watch_restarts = Counter(
            "tandem_watch_restarts", "Restarts of broken watches", registry=registry
        )
        self._of_pools = (
            self.desired,
            self.ready,
            self.attainment,
            self.goodput,
            self.budget_remaining,
            self.budget_burn_rate,
            self.ttft,
            self.tpot,
            self.gpus_held,
            self.model_error,
            self.reason,
            self.metrics_age,
        )

    def show(
        self,
        decision: Decision,
        *,
        namespace: str,
        pool: str,
        ready: Mapping[str, int],
        gpus_held: int,
        age_s: float | None,
    ) -> None:
        """Show one decision. What is unknown has no series, rather than a zero."""
        where = {"namespace": namespace, "pool": pool}
        self.forget(namespace=namespace, pool=pool)
        for role, each in decision.roles.items():
            self.desired.labels(**where, role=role.value).set(each.to)
            self.reason.labels(**where, role=role.value, reason=each.reason.value).set(1)
            error = decision.inputs.get(f"{role.value}_model_error_ratio")
            if error is not None:
                self.model_error.labels(**where, role=role.value).set(error)
        for name, count in ready.items():
            self.ready.labels(**where, role=name).set(count)
        recent = decision.recent
        for gauge, value in (
            (self.attainment, recent.attainment),
            (self.goodput, recent.goodput_rps),
            (self.gpus_held, gpus_held),
            (self.metrics_age, age_s),
        ):
            if value is not None:
                gauge.labels(**where).set(value)
        budget = decision.budget
        for window, share in (
            ("1h", budget.remaining_share),
            ("30d", budget.remaining_30d_share),
        ):
            if share is not None:
                self.budget_remaining.labels(**where, window=window).set(share)
        for window, rate in budget.burn_rates.items():
            self.budget_burn_rate.labels(**where, window=window).set(rate)
        self._quantiles(self.ttft, recent.ttft, where)
        self._quantiles(self.tpot, recent.tpot, where)

    def forget(self, *, namespace: str, pool: str) -> None:
        """Remove every series of a pool."""
        for gauge in self._of_pools:
            gauge.remove_by_labels({"namespace": namespace, "pool": pool})

    @staticmethod
    def _quantiles(gauge: Gauge, found: Quantiles, where: dict[str, str]) -> None:
        for quantile, value in (("0.5", found.p50_s), ("0.95", found.p95_s), ("0.99", found.p99_s)):
            if value is not None:
                gauge.labels(**where, quantile=quantile).set(value)
