"""The operator's work while nothing happens, and its cost."""

import signal
import time

import pytest

from tests.integration.fake_pods import fake_pods
from tests.integration.operator_process import (
    Pool,
    eventually,
    install_crd,
    node,
    operator,
    settled,
)

pytestmark = pytest.mark.timeout(900)

POOLS = 10
REST_S = 60.0
RSS_LIMIT_MIB = 140.0


@pytest.fixture
def running(control_plane, namespace, tmp_path):
    """An operator for the test's namespace alone."""
    install_crd(control_plane)
    words = ("--namespace", namespace)
    with operator(control_plane.kubeconfig, tmp_path / "log", *words) as process:
        eventually(lambda: process.probe("/readyz") == 200)
        yield process


def test_ten_pools_at_rest_write_nothing_for_a_minute_and_fit_in_memory(
    running, control_plane, namespace, record_property
):
    """Nine serve, and the pods of one never start."""
    serving = [Pool(control_plane, namespace, f"pool-{number}") for number in range(POOLS - 1)]
    stuck = Pool(control_plane, namespace, "stuck")
    with node(control_plane), fake_pods() as fake:
        for pool in serving:
            pool.apply()
        eventually(lambda: stuck.objects_of_kind("Pod") == 3 * len(serving))
        serving[0].make_pods_ready(host=fake.host)
        stuck.apply()
        for pool in serving:
            eventually(lambda pool=pool: pool.condition("Ready")["status"] == "True")
            eventually(lambda pool=pool: pool.condition("MetricsFresh")["status"] == "True")
        eventually(lambda: stuck.condition("CapacityBlocked")["status"] == "True")
        before = settled(stuck)

        time.sleep(REST_S)

        assert stuck.versions() == before
    rss_mib = running.rss_mib()
    record_property("rss_mib", round(rss_mib, 1))
    assert rss_mib <= RSS_LIMIT_MIB


def test_ends_cleanly_when_asked_to(running):
    assert running.probe("/healthz") == 200
    assert "tandem_leader 1.0" in running.metrics()

    assert running.stop(signal.SIGTERM) == 0


def test_a_restarted_operator_changes_nothing(control_plane, namespace, tmp_path):
    install_crd(control_plane)
    pool = Pool(control_plane, namespace)
    pool.apply(prefill={"minReplicas": 2})
    words = ("--namespace", namespace)
    with node(control_plane), fake_pods() as fake:
        with operator(control_plane.kubeconfig, tmp_path / "first", *words) as first:
            eventually(lambda: pool.objects_of_kind("Pod") == 4)
            pool.make_pods_ready(host=fake.host)
            eventually(lambda: pool.condition("Ready")["status"] == "True")
            before = settled(pool)
            first.stop(signal.SIGKILL)

        with operator(control_plane.kubeconfig, tmp_path / "second", *words) as second:
            eventually(lambda: 'tandem_reconcile_total{result="success"}' in second.metrics())

            assert settled(pool) == before


def test_shows_metrics_of_its_decisions_and_none_of_a_pool_that_is_gone(
    running, control_plane, namespace
):
    pool = Pool(control_plane, namespace)
    pool.apply()
    labels = f'{{namespace="{namespace}",pool="tiny",role="prefill"}}'
    eventually(lambda: f"tandem_pool_desired_replicas{labels} 1.0" in running.metrics())
    held = f'tandem_pool_gpus_held{{namespace="{namespace}",pool="tiny"}} 0.0'
    eventually(lambda: held in running.metrics())
    assert "tandem_pool_attainment_ratio{" not in running.metrics()

    pool.delete()

    eventually(lambda: 'pool="tiny"' not in running.metrics())
