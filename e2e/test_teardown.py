"""A deleted pool leaves nothing behind. Runs last: it ends the pool of all the other tests."""

from e2e.commands import kubectl
from e2e.pools import KIND, Pool, wait_until


def test_a_deleted_idle_pool_takes_all_its_children_with_it_within_a_minute(pool: Pool):
    assert {"Deployment", "Pod", "Service", "ConfigMap"} <= set(pool.children())

    kubectl("delete", KIND, pool.name, "-n", pool.namespace)

    assert not pool.exists()
    wait_until(lambda: not pool.children(), within_s=60.0, what="the end of every child")
