"""`tandem top` against a real API server: live on a terminal, once elsewhere."""

import json
import subprocess

import pytest

from tests.integration.commands import Screen, environment, tandem
from tests.integration.operator_process import install_crd
from tests.unit.cli.saved import STATUS, pool

BASE = "/apis/tandem-inference.io/v1alpha1/namespaces/{namespace}/inferencepools"


def make_pool(control_plane, namespace: str, name: str, **status) -> None:
    made = pool()
    made["metadata"] = {"name": name, "namespace": namespace}
    base = BASE.format(namespace=namespace)
    bare = {key: value for key, value in made.items() if key != "status"}
    there = control_plane.request("POST", base, bare)
    told = {**there, "status": {**STATUS, **status}}
    control_plane.request("PUT", f"{base}/{name}/status", told)


@pytest.fixture
def team(control_plane, namespace):
    """A namespace with two pools, and a user who may only view it."""
    install_crd(control_plane)
    control_plane.run_kubectl(
        *("create", "role", "viewer", "-n", namespace, "--verb=get,list,watch"),
        "--resource=inferencepools.tandem-inference.io",
    )
    control_plane.run_kubectl(
        *("create", "rolebinding", "viewer", "-n", namespace, "--role=viewer", "--user=alice")
    )
    make_pool(control_plane, namespace, "chat")
    make_pool(control_plane, namespace, "code", prefill={"ready": 1, "desired": 1, "current": 1})
    return namespace


@pytest.fixture
def top(control_plane):
    def top(*words: str, user: str = "alice") -> subprocess.CompletedProcess[str]:
        return tandem(control_plane, "top", *words, user=user)

    return top


def test_without_a_terminal_it_prints_one_table(top, team):
    result = top("-n", team)

    assert result.returncode == 0, result.stderr
    rows = [line.split("│") for line in result.stdout.splitlines() if "│" in line]
    assert [cells[0].strip() for cells in rows] == ["chat", "code"]
    assert [cells[2].strip() for cells in rows] == ["2/3/4", "1/1/4"]
    assert "\x1b" not in result.stdout


def test_all_namespaces_need_the_right_to_list_them(top, team):
    refused, allowed = top("-A"), top("-A", "-o", "json", user="admin")

    assert refused.returncode == 1
    assert "you may not list InferencePools of all namespaces" in refused.stderr
    found = {(row["namespace"], row["name"]) for row in json.loads(allowed.stdout)["pools"]}
    assert {(team, "chat"), (team, "code")} <= found


def test_on_a_screen_it_draws_what_changed_in_the_place_of_what_was(
    control_plane, team, interruptible
):
    user = environment(control_plane, "alice")
    with Screen("top", "-n", team, "--interval", "500ms", env=user) as on:
        on.await_text("2/3/4")
        path = f"{BASE.format(namespace=team)}/chat"
        now = control_plane.request("GET", path)
        now["status"]["prefill"] |= {"ready": 3}
        control_plane.request("PUT", f"{path}/status", now)
        on.await_text("3/3/4")
        on.interrupt()

    assert on.returncode == 0
    assert "\x1b[1A" in on.text, "it goes up to draw again"
    assert "Traceback" not in on.text


def test_a_pool_that_comes_and_goes_needs_no_new_start(control_plane, team, interruptible):
    user = environment(control_plane, "alice")
    with Screen("top", "new*", "-n", team, "--interval", "500ms", env=user) as on:
        on.await_text("There is no InferencePool named new*")
        make_pool(control_plane, team, "newest")
        on.await_text("newest")
        control_plane.request("DELETE", f"{BASE.format(namespace=team)}/newest")
        on.await_text("There is no InferencePool")
        on.interrupt()

    assert on.returncode == 0


def test_an_api_server_that_is_gone_for_a_while_leaves_the_last_table(
    fresh_control_plane, interruptible
):
    plane = fresh_control_plane
    install_crd(plane)
    make_pool(plane, "default", "chat")
    with Screen("top", "-n", "default", env=environment(plane, "admin")) as on:
        on.await_text("2/3/4")
        plane.kill_api_server()
        on.await_text("does not answer")
        on.await_text("2/3/4")
        plane.start_api_server()
        on.await_text("last decisions")
        on.interrupt()

    assert on.returncode == 0
