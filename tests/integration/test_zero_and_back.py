"""To zero and back on a real API server: counts, status, a restart, and the operator's own log."""

import contextlib
import time
from datetime import UTC, datetime

import pytest

from tests.integration.fake_pods import fake_pods
from tests.integration.kubelet import pods_come_and_go
from tests.integration.operator_process import (
    Pool,
    eventually,
    install_crd,
    node,
    operator,
    settled,
)
from tests.unit.workloads.kstatus import CURRENT, verdict

pytestmark = pytest.mark.timeout(1200)
ASLEEP_WITHIN_S = 300.0
"""A minute without a request, after pods that get ready as slowly as the machine is busy."""
ZERO, ONE = {"prefill": 0, "decode": 0}, {"prefill": 1, "decode": 1}
SLEEPS = {"scaling": {"scaleToZeroAfter": "1m"}}


@pytest.fixture
def idle(control_plane, namespace, tmp_path):
    """An idle pool that may sleep, its pods, and what starts an operator for it."""
    install_crd(control_plane)
    pool = Pool(control_plane, namespace)

    @contextlib.contextmanager
    def run(name):
        words = ("--namespace", namespace)
        with operator(control_plane.kubeconfig, tmp_path / name, *words) as process:
            yield process

    with (
        node(control_plane),
        fake_pods() as pods,
        pods_come_and_go(pool, host=pods.host),
    ):
        pool.apply(**SLEEPS)
        yield pool, pods, run


def counts(pool):
    return {role: pool.replicas(role) for role in ZERO}


def generations(pool):
    return {role: pool.deployment(role)["metadata"]["generation"] for role in ZERO}


def asleep(pool):
    found = pool.condition("Available")
    return counts(pool) == ZERO and found.get("reason") == "Asleep"


def test_an_idle_pool_goes_to_zero_and_a_request_brings_both_roles_back(idle):
    pool, pods, run = idle
    with run("log") as process:
        eventually(lambda: asleep(pool), within_s=ASLEEP_WITHIN_S)
        eventually(lambda: pool.objects_of_kind("Pod") == 1)
        eventually(lambda: verdict(pool.get()) == CURRENT)
        found = pool.get()
        assert pool.condition("Ready")["status"] == "True"
        assert found["status"]["prefill"]["summary"].endswith("/0")
        assert found["status"]["sleep"]["since"]
        eventually(lambda: 'tandem_pool_rest{namespace="' in process.metrics())

        before = pool.deployments_version()
        pods.hold()
        eventually(lambda: counts(pool) == ONE)
        changed = {each for each in pool.counts_since(before) if each[1]}
        assert changed == {("tiny-prefill", 1), ("tiny-decode", 1)}
        eventually(lambda: pool.condition("Available")["reason"] == "Serving")
        pods.serve_held()

        wake = eventually(lambda: pool.get()["status"]["sleep"].get("lastWake"))
        assert pool.get()["status"]["sleep"]["wakes"] == 1
        eventually(lambda: "started" in pool.get()["status"]["sleep"]["lastWake"])
        assert wake["noticed"]
        reasons = {"Asleep", "Waking"}
        eventually(lambda: reasons <= {each.get("reason") for each in pool.events()})


def test_an_operator_that_starts_while_a_pool_is_at_zero_leaves_it_there_and_wakes_it(idle):
    pool, pods, run = idle
    with run("first"):
        eventually(lambda: asleep(pool), within_s=ASLEEP_WITHIN_S)
    before = generations(pool)

    with run("second") as process:
        # The conditions are still those of the first operator.
        eventually(lambda: 'tandem_reconcile_total{result="success"}' in process.metrics())
        time.sleep(12)
        assert counts(pool) == ZERO
        assert generations(pool) == before
        pods.hold()
        eventually(lambda: counts(pool) == ONE)


def test_nothing_is_written_while_a_pool_sleeps_and_an_edit_starts_no_pod(idle):
    pool, _, run = idle
    with run("log"):
        eventually(lambda: asleep(pool), within_s=ASLEEP_WITHIN_S)
        eventually(lambda: pool.objects_of_kind("Pod") == 1)
        before = settled(pool)
        time.sleep(12)
        assert pool.versions() == before

        pool.apply(**SLEEPS, engine={"maxNumSeqs": 8})
        generation = pool.get()["metadata"]["generation"]
        eventually(lambda: pool.get()["status"]["observedGeneration"] == generation)
        eventually(lambda: verdict(pool.get()) == CURRENT)
        assert counts(pool) == ZERO
        assert pool.objects_of_kind("Pod") == 1

        pool.apply(engine={"maxNumSeqs": 8})
        eventually(lambda: counts(pool) == ONE)


def test_a_schedule_wakes_a_pool_in_time_and_no_request_is_needed(idle):
    pool, _, run = idle
    with run("log"):
        eventually(lambda: asleep(pool), within_s=ASLEEP_WITHIN_S)

        # Far enough ahead for a busy machine, whose pods the operator has to call early.
        start_s = 60.0 * (time.time() // 60.0 + 3)
        at = datetime.fromtimestamp(start_s, UTC)
        office = {
            "name": "office",
            "start": f"{at.minute} {at.hour} * * *",
            "duration": "10h",
            "prefill": {"minReplicas": 2},
        }
        pool.apply(scaling={**SLEEPS["scaling"], "schedules": [office]})
        eventually(lambda: pool.get()["status"]["schedules"][0].get("next"))
        assert counts(pool) == ZERO
        eventually(lambda: pool.get()["status"]["prefill"]["ready"] == 2, within_s=420)
        assert counts(pool) == {"prefill": 2, "decode": 1}

        [told] = eventually(lambda: [s for s in pool.get()["status"]["schedules"] if "until" in s])
        assert told["name"] == "office"
        status = pool.get()["status"]
        assert status["sleep"]["wakes"] == 0
        words = 'prefill 0 -> 2: the schedule "office"'
        woke = [each for each in pool.events() if (each.get("note") or "").startswith(words)]
        # The pods of a busy machine can be late; the operator that called them must not be.
        assert min(datetime.fromisoformat(each["eventTime"]) for each in woke) < at


def test_the_field_is_refused_for_a_role_with_another_owner(control_plane, namespace):
    install_crd(control_plane)
    pool = Pool(control_plane, namespace)
    manifest = pool.manifest(**SLEEPS, prefill={"management": "External"})

    with pytest.raises(Exception, match=r"scaleToZeroAfter needs both roles"):
        pool.kubectl("apply", "-f", "-", stdin=manifest)
