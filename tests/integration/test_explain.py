"""`tandem explain` against a real API server, as a user who may only read."""

import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.integration.commands import COMMAND, Screen, environment, tandem
from tests.integration.operator_process import install_crd
from tests.unit.cli.saved import STATUS, event, memory, pool

READER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "reader"},
    "rules": [
        {
            "apiGroups": ["tandem-inference.io"],
            "resources": ["inferencepools"],
            "verbs": ["get", "list"],
        },
        {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ],
}


@pytest.fixture
def team(control_plane, namespace):
    """A namespace with a pool that has a status, an Event, a memory, and a reader of them all."""
    install_crd(control_plane)
    made = pool()
    made["metadata"] = {"name": "chat", "namespace": namespace}
    base = f"/apis/tandem-inference.io/v1alpha1/namespaces/{namespace}/inferencepools"
    there = control_plane.request("POST", base, {k: v for k, v in made.items() if k != "status"})
    control_plane.request("PUT", f"{base}/chat/status", {**there, "status": STATUS})
    told = event("prefill 2 -> 3: TTFT p95 was 0.51 s", uid=there["metadata"]["uid"])
    told |= {
        "metadata": {"name": "chat.1", "namespace": namespace},
        "eventTime": "2026-05-04T10:00:00.000000Z",
        "action": "Reconcile",
        "reportingController": "tandem-inference.io/operator",
        "reportingInstance": "test",
    }
    told["regarding"] |= {"apiVersion": made["apiVersion"], "namespace": namespace}
    control_plane.request("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", told)
    kept = memory()
    kept["metadata"]["namespace"] = namespace
    control_plane.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", kept)
    control_plane.run_kubectl("apply", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(READER))
    control_plane.run_kubectl(
        *("create", "rolebinding", "reader", "-n", namespace, "--role=reader", "--user=alice")
    )
    return namespace


@pytest.fixture
def explain(control_plane):
    def explain(*words: str, user: str = "alice") -> subprocess.CompletedProcess[str]:
        return tandem(control_plane, "explain", *words, user=user)

    return explain


def test_tells_a_live_pools_decision_events_and_memory(explain, team):
    result = explain("chat", "-n", team)

    assert result.returncode == 0, result.stderr
    assert f"{team}/chat: TTFT 300ms" in result.stdout
    assert (
        "2026-05-04T10:00:00Z: prefill 2 -> 3: TTFT p95 was 0.51 s (bound 0.45 s)" in result.stdout
    )
    assert "2026-05-04T10:00:00  ObservedTTFT  prefill 2 -> 3" in result.stdout
    assert "55.0 s, P90 59.0 s (10 seen)" in result.stdout
    assert "SLOMet=False (Missed)" in result.stdout


def test_finds_the_namespace_of_the_context_that_is_named(explain, control_plane, team, tmp_path):
    config = yaml.safe_load(Path(control_plane.user_kubeconfig("alice")).read_text())
    [context] = config["contexts"]
    config["contexts"].append(
        {"name": "mine", "context": {**context["context"], "namespace": team}}
    )
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))

    result = explain("chat", "--kubeconfig", str(path), "--context", "mine")

    assert f"{team}/chat: TTFT 300ms" in result.stdout, result.stderr


@pytest.mark.parametrize(
    ("words", "user", "told"),
    [
        (("code",), "alice", "no InferencePool code in namespace {team}; there are chat"),
        (("chat",), "bob", "the API server refused: "),
        (("chat", "--context", "nowhere"), "alice", "no cluster to ask: "),
    ],
)
def test_what_cannot_be_read_is_one_sentence(explain, team, words, user, told):
    result = explain(*words, "-n", team, user=user)

    assert result.returncode == 1
    assert result.stdout == ""
    [line] = result.stderr.strip().splitlines()
    assert told.format(team=team) in line


def test_a_namespace_without_pools_names_those_of_others(explain, team):
    result = explain("chat", "-n", "kube-public", user="admin")

    assert "no InferencePool chat in namespace kube-public; there are " in result.stderr
    assert f"{team}/chat" in result.stderr


def test_explain_names_no_pools_of_namespaces_that_the_user_may_not_read(
    explain, control_plane, team
):
    base = f"/apis/tandem-inference.io/v1alpha1/namespaces/{team}/inferencepools"
    control_plane.request("DELETE", f"{base}/chat")

    result = explain("chat", "-n", team)

    assert result.stderr.strip().endswith(f"no InferencePool chat in namespace {team}")


def decide(control_plane, team: str, reason: str) -> None:
    path = f"/apis/tandem-inference.io/v1alpha1/namespaces/{team}/inferencepools/chat"
    now = control_plane.request("GET", path)
    now["status"]["decision"]["reason"] = reason
    control_plane.request("PUT", f"{path}/status", now)


def test_a_watch_tells_the_next_decision_when_it_is_made(control_plane, team, interruptible):
    with subprocess.Popen(
        [*COMMAND, "explain", "chat", "-n", team, "--watch"],
        env=environment(control_plane, "alice"),
        stdout=subprocess.PIPE,
        text=True,
    ) as watcher:
        first = next(line for line in watcher.stdout if "prefill 2 -> 3" in line)
        decide(control_plane, team, "prefill 3 -> 4: predicted TTFT p95 is 0.6 s (bound 0.45 s)")
        second = next(line for line in watcher.stdout if "prefill 3 -> 4" in line)
        watcher.send_signal(signal.SIGINT)
        # It may still be in the middle of a table: to close the pipe under it makes it fail.
        watcher.stdout.read()

    assert first
    assert second
    assert watcher.returncode == 0


@pytest.mark.parametrize("user", ["alice", "admin"], ids=["without the right to watch", "with it"])
def test_on_a_screen_a_watch_draws_the_change_in_its_place(
    control_plane, team, interruptible, user
):
    with Screen(
        "explain", "chat", "-n", team, "--watch", env=environment(control_plane, user)
    ) as on:
        on.await_text("prefill 2 -> 3")
        decide(control_plane, team, "prefill 3 -> 4: predicted TTFT p95 is 0.6 s")
        on.await_text("prefill 3 -> 4")
        on.interrupt()

    assert on.returncode == 0
    # Its own page, and at the end the last explanation on the user's.
    assert on.text.count("\x1b[?1049h") == on.text.count("\x1b[?1049l") == 1
    assert "prefill 3 -> 4" in on.text.partition("\x1b[?1049l")[2]
