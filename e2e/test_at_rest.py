"""A pool without requests is not written to."""

import time

import pytest

from e2e.commands import kubectl_json
from e2e.pools import Pool

KINDS = (
    "inferencepools.tandem-inference.io,deployments,replicasets,pods,services,endpoints,"
    "endpointslices,serviceaccounts,configmaps,secrets,roles,rolebindings,poddisruptionbudgets,"
    "leases,events"
)
AT_REST_S = 60.0


def versions(namespace: str) -> dict[tuple[str, str], str]:
    """Return the resource version of everything in a namespace."""
    return {
        (item["kind"], item["metadata"]["name"]): item["metadata"]["resourceVersion"]
        for item in kubectl_json("get", KINDS, "-n", namespace)["items"]
    }


@pytest.mark.timeout(420)
def test_nothing_is_written_to_an_idle_pools_namespace_for_a_minute(pool: Pool):
    deadline = time.monotonic() + 180.0
    before = versions(pool.namespace)
    since = time.monotonic()
    while time.monotonic() - since < AT_REST_S:
        time.sleep(5.0)
        now = versions(pool.namespace)
        if now != before:
            # The last Events and statuses of the start may still come; then it has to end.
            changed = sorted(set(now.items()) ^ set(before.items()))
            assert time.monotonic() < deadline, f"still written to: {changed}"
            before, since = now, time.monotonic()
