"""Parts are taken away under load: nothing hangs, and only what a dead part held may fail."""

import pytest

from benchmarks.load.plan import Lengths, Traffic
from e2e.commands import kubectl
from e2e.demo.setup import OPERATOR_NAMESPACE
from e2e.disturb import Aftermath, load_while
from e2e.pools import Pool, wait_until
from e2e.trial import COUNTS

LIMIT_S = 60.0


def disturbed(url: str, name: str, disturb) -> Aftermath:
    traffic = Traffic(
        name=name,
        rate_rps=2.0,
        duration_s=20.0,
        prompt_tokens=Lengths(50, 300),
        output_tokens=Lengths(20, 120),
    )
    return load_while(disturb, url=url, model="tiny", traffic=traffic, after_s=6.0, limit_s=LIMIT_S)


def assert_whole_again(pool: Pool, *, within_s: float = 150.0) -> None:
    wait_until(
        lambda: pool.is_whole(counts=COUNTS), within_s=within_s, what=f"all of {COUNTS} Ready"
    )


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_deleted_engine_pod_takes_no_other_request_with_it(pool: Pool, url, role):
    victim = pool.pods(role)[0]

    aftermath = disturbed(
        url,
        f"delete-{role}",
        lambda: kubectl("delete", "pod", victim.name, "-n", pool.namespace, "--wait=false"),
    )

    assert len(aftermath.records) > 20
    assert aftermath.hung == []
    assert aftermath.failed_without_cause == []
    assert_whole_again(pool)
    assert victim.uid not in {face.uid for face in pool.pods(role)}


def test_a_pool_serves_without_its_operator_and_is_looked_after_again(pool: Pool, url):
    before = pool.all_pods()

    def remove():
        kubectl("delete", "pods", "-n", OPERATOR_NAMESPACE, "--all", "--wait=false")

    aftermath = disturbed(url, "delete-operator", remove)

    assert aftermath.failed == []
    assert pool.all_pods() == before
    kubectl(
        *("rollout", "status", "deployment", "-n", OPERATOR_NAMESPACE, "--timeout=60s"),
        timeout_s=70.0,
    )
    generation = pool.read()["metadata"]["generation"]
    pool.patch({"scaling": {"maxStep": 3}})
    wait_until(
        lambda: pool.read()["status"]["observedGeneration"] > generation,
        within_s=30.0,
        what="a new operator that acts on an edit",
    )
    assert pool.all_pods() == before
