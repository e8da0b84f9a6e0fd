"""An API server that freezes, dies or answers errors: the operator lives, waits and catches up."""

import json
import signal
import time

import pytest

from tests.integration.fake_pods import fake_pods
from tests.integration.faulty_api import faulty_api
from tests.integration.operator_process import Pool, eventually, install_crd, node, operator

pytestmark = pytest.mark.timeout(900)

WATCHES = 5
OUTAGE_S = 65.0
"""Longer than kopf's default list of retries lasts, after which it would end."""


@pytest.fixture
def serving(fresh_control_plane, tmp_path):
    """An operator with one ready pool on a control plane of its own."""
    plane = fresh_control_plane
    install_crd(plane)
    pool = Pool(plane, "default")
    with (
        node(plane),
        fake_pods() as fake,
        operator(plane.kubeconfig, tmp_path / "log", "--namespace", "default") as process,
    ):
        pool.apply()
        eventually(lambda: pool.objects_of_kind("Pod") == 3)
        pool.make_pods_ready(host=fake.host)
        eventually(lambda: pool.condition("Available")["status"] == "True")
        yield plane, pool, process


def outlives(process):
    assert process.process.poll() is None
    assert process.probe("/healthz") == 200


def acts_on(pool, generation):
    pool.apply(slo={"tpot": {"target": f"{30 + generation}ms"}}, decode={"minReplicas": 2})
    eventually(lambda: pool.get()["status"]["observedGeneration"] == generation)
    eventually(lambda: pool.replicas("decode") == 2)


def test_outlives_an_api_server_that_is_killed_and_comes_back(serving):
    plane, pool, process = serving
    uids = {key: each["metadata"]["uid"] for key, each in pool.objects().items()}

    plane.kill_api_server()
    eventually(lambda: process.log().count("pass failed") >= 3)
    outlives(process)
    plane.start_api_server()

    acts_on(pool, 2)
    now = {key: each["metadata"]["uid"] for key, each in pool.objects().items()}
    assert {key: now[key] for key in uids} == uids
    outlives(process)


def test_outlives_an_api_server_that_freezes_for_longer_than_a_minute(serving):
    plane, pool, process = serving

    with plane.api_server_frozen():
        time.sleep(OUTAGE_S)
        outlives(process)

    acts_on(pool, 2)
    outlives(process)


def test_notices_what_was_deleted_while_it_could_not_watch(serving):
    """A relist does not tell of deletions: decisions must not rest on pods that are gone."""
    plane, pool, process = serving

    process.process.send_signal(signal.SIGSTOP)
    plane.kill_api_server()
    plane.start_api_server()
    pool.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")
    process.process.send_signal(signal.SIGCONT)

    eventually(lambda: pool.condition("Available")["status"] == "False")
    outlives(process)


def test_starts_against_an_api_server_that_is_not_there_yet(fresh_control_plane, tmp_path):
    plane = fresh_control_plane
    install_crd(plane)
    pool = Pool(plane, "default")
    pool.apply()
    kubeconfig = plane.kubeconfig
    plane.kill_api_server()

    with operator(kubeconfig, tmp_path / "log") as process:
        eventually(lambda: process.probe("/readyz") == 500)
        assert process.probe("/healthz") == 200
        plane.start_api_server()

        eventually(lambda: process.probe("/readyz") == 200)
        eventually(lambda: pool.replicas("decode") == 1)


def test_waits_for_its_crd_and_says_so(fresh_control_plane, tmp_path):
    plane = fresh_control_plane
    with operator(plane.kubeconfig, tmp_path / "log") as process:
        eventually(lambda: "CRD" in process.log())
        assert process.probe("/readyz") == 500
        install_crd(plane)
        Pool(plane, "default").apply()

        eventually(lambda: Pool(plane, "default").replicas("decode") == 1)
        assert process.probe("/readyz") == 200


@pytest.fixture
def behind_proxy(fresh_control_plane, tmp_path):
    """An operator with one pool that reaches the API server through a proxy with faults."""
    plane = fresh_control_plane
    install_crd(plane)
    pool = Pool(plane, "default")
    with (
        faulty_api(plane) as api,
        operator(api.kubeconfig(tmp_path / "kubeconfig"), tmp_path / "log") as process,
    ):
        pool.apply()
        eventually(lambda: pool.replicas("decode") == 1)
        eventually(lambda: api.watches >= WATCHES)
        yield api, pool, process


def test_outlives_errors_for_longer_than_a_minute_and_does_not_storm(behind_proxy):
    api, pool, process = behind_proxy

    api.fail(503)
    before = api.requests
    time.sleep(OUTAGE_S)
    outlives(process)
    assert api.requests - before < 200
    api.mend()

    acts_on(pool, 2)
    outlives(process)


def test_a_watch_whose_history_is_gone_is_listed_anew(behind_proxy):
    api, pool, process = behind_proxy

    api.send_to_watches(410)

    acts_on(pool, 2)
    outlives(process)
    assert "tandem_watch_restarts_total 0.0" in process.metrics()


def test_watching_starts_anew_after_an_error_that_ends_it(behind_proxy):
    api, pool, process = behind_proxy

    before = api.watches
    api.send_to_watches(500)
    eventually(lambda: "tandem_watch_restarts_total 1.0" in process.metrics())
    eventually(lambda: api.watches >= before + WATCHES)

    acts_on(pool, 2)
    outlives(process)


@pytest.mark.parametrize("what", ["an empty file", "a folder"])
def test_ends_with_one_sentence_where_its_kubeconfig_is_none(tmp_path, what):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("") if what == "an empty file" else kubeconfig.mkdir()

    with operator(kubeconfig, tmp_path / "log") as process:
        assert process.process.wait(timeout=60) == 1

    [line] = process.log().splitlines()
    assert str(kubeconfig) in json.loads(line)["why"]
