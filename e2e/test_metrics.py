"""A real Prometheus feeds the pool, and its absence is noticed, said and made up for."""

from collections.abc import Iterator

import pytest

from e2e.commands import kubectl
from e2e.demo.setup import PROMETHEUS_NAMESPACE, PROMETHEUS_URL, cluster
from e2e.pools import Pool, wait_until


@pytest.fixture
def prometheus() -> Iterator[None]:
    """Prometheus in the cluster; the pool is left reading its pods, as it was."""
    cluster("prometheus")
    yield
    cluster("prometheus")


def wait_for_origin(pool: Pool, said: str) -> None:
    """Wait until the pool's metrics are fresh and come from there."""

    def told() -> bool:
        fresh = pool.condition("MetricsFresh")
        return fresh.get("status") == "True" and said in fresh["message"]

    wait_until(told, within_s=90.0, what=f"MetricsFresh=True that says {said!r}")


def test_prometheus_is_read_while_it_answers_and_the_pods_when_it_does_not(pool: Pool, prometheus):
    before = pool.all_pods()
    pool.patch({"metrics": {"source": "Auto", "prometheus": {"url": PROMETHEUS_URL}}})
    wait_for_origin(pool, "read from Prometheus")

    kubectl("scale", "deployment/prometheus", "-n", PROMETHEUS_NAMESPACE, "--replicas=0")

    wait_for_origin(pool, "read from the pods: Prometheus")
    assert pool.all_pods() == before
    pool.patch({"metrics": None})
    wait_until(pool.is_observed, within_s=60.0, what="the pool without Prometheus observed")
