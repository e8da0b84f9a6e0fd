"""The choices of the cluster's set-up, from what it finds."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import cluster, docker, names
from e2e.cluster.cluster import NodeState, has_started_since, is_node_ready, kind_config
from e2e.cluster.docker import forget_stale_pid, lacks_sys_resource, start_until_it_answers
from e2e.cluster.doctor import Finding, verdict
from e2e.cluster.images import IMAGES
from e2e.cluster.kind import Supply, choose_supply, refuse_strangers
from e2e.cluster.progress import CannotContinueError
from e2e.cluster.tools import TOOLS, Version, version_of


def test_published_images_are_preferred_without_looking_further() -> None:
    def never() -> str | None:
        raise AssertionError("asked in vain")

    assert choose_supply(can_pull=lambda: True, problem=never) is Supply.STOCK


def test_what_is_tried_comes_the_same_way_as_what_is_used() -> None:
    used = (names.STOCK_NODE_IMAGE, names.STOCK_PYTHON_IMAGE, names.STOCK_PROMETHEUS_IMAGE)

    # A first part with a dot or a colon would be another registry than Docker Hub.
    hosts = [
        image.rpartition("/")[0].partition("/")[0] for image in (names.STOCK_TINY_IMAGE, *used)
    ]
    assert not [host for host in hosts if "." in host or ":" in host]


def test_images_are_made_here_where_no_registry_answers() -> None:
    assert choose_supply(can_pull=lambda: False, problem=lambda: None) is Supply.SELF_BUILT


def test_a_machine_that_can_do_neither_gets_one_sentence() -> None:
    with pytest.raises(CannotContinueError, match=r"^No registry answers.*Go is not installed\.$"):
        choose_supply(can_pull=lambda: False, problem=lambda: "Go is not installed.")


@pytest.mark.parametrize("supply", Supply)
def test_everything_is_published_on_loopback_only(supply: Supply) -> None:
    config = yaml.safe_load(kind_config(supply))

    mappings = config["nodes"][0]["extraPortMappings"]
    assert {one["listenAddress"] for one in mappings} == {"127.0.0.1"}
    assert {one["hostPort"] for one in mappings} == {30080, 30090, *range(30081, 30086)}
    assert all(one["hostPort"] == one["containerPort"] for one in mappings)


def test_only_our_own_node_image_goes_without_the_default_network() -> None:
    assert "networking" not in yaml.safe_load(kind_config(Supply.STOCK))
    own = yaml.safe_load(kind_config(Supply.SELF_BUILT))
    assert own["networking"] == {"disableDefaultCNI": True}


def container(labels: dict[str, str] | None) -> dict[str, Any]:
    return {"Config": {"Labels": labels}}


def test_our_own_cluster_may_be_touched() -> None:
    refuse_strangers([container({names.OWNED_LABEL: "true"})], name=names.CLUSTER)


@pytest.mark.parametrize("labels", [None, {}, {names.OWNED_LABEL: "false"}])
def test_a_foreign_cluster_of_the_same_name_is_left_alone(
    labels: dict[str, str] | None,
) -> None:
    with pytest.raises(CannotContinueError, match="does not carry our label"):
        refuse_strangers(
            [container({names.OWNED_LABEL: "true"}), container(labels)], name=names.CLUSTER
        )


@pytest.mark.parametrize(
    ("held", "lacks"),
    [("000001ffffffffff", False), ("000001fffeffffff", True), ("0000000000000000", True)],
)
def test_the_missing_capability_is_read_from_the_bounding_set(held: str, lacks: bool) -> None:
    assert lacks_sys_resource(f"Name:\tx\nCapBnd:\t{held}\nCapAmb:\t0\n") is lacks


@pytest.mark.parametrize(
    ("running", "kept"), [("dockerd", True), ("python3", False), (None, False)]
)
def test_only_the_pid_file_of_an_engine_that_is_gone_is_removed(
    tmp_path: Path, running: str | None, kept: bool
) -> None:
    pid_file = tmp_path / "docker.pid"
    pid_file.write_text("42\n")
    if running:
        (tmp_path / "proc" / "42").mkdir(parents=True)
        (tmp_path / "proc" / "42" / "comm").write_text(f"{running}\n")

    forget_stale_pid(pid_file, processes=tmp_path / "proc")

    assert pid_file.exists() is kept


def test_an_engine_that_gave_up_beside_a_dying_one_is_started_again(tmp_path: Path) -> None:
    pid_file, answering = tmp_path / "docker.pid", tmp_path / "answers"
    pid_file.write_text("1\n")
    # Gives up as dockerd does beside a pid file; the dying engine leaves that file behind.
    script = f"test ! -e {pid_file} && touch {answering} && exec sleep 60"
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        if not started:
            pid_file.write_text("not the pid of any process\n")
        started.append(subprocess.Popen(["sh", "-c", script]))
        return started[-1]

    start_until_it_answers(
        start=start, ready=answering.exists, pid_file=pid_file, within_s=100.0, pause_s=0.05
    )

    assert len(started) == 2
    started[-1].kill()
    started[-1].wait()


def test_an_engine_that_another_run_started_meanwhile_is_not_started_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([False, True])
    monkeypatch.setattr(docker, "engine_answers", lambda: next(answers))
    monkeypatch.setattr(docker, "start_problem", lambda: None)
    monkeypatch.setattr(docker, "_install", lambda: pytest.fail("it answers already"))

    docker.ensure_engine()

    assert (cache / "locks" / "docker-engine").exists()


def test_an_engine_that_never_answers_is_reported_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(CannotContinueError, match="did not answer"):
        start_until_it_answers(
            start=lambda: None,
            ready=lambda: False,
            pid_file=tmp_path / "docker.pid",
            within_s=0.2,
            pause_s=0.05,
        )


@pytest.mark.parametrize(
    ("tool", "version", "suits"),
    [
        ("kubectl", (1, 34), True),
        ("kubectl", (1, 33), True),
        ("kubectl", (1, 35), True),
        ("kubectl", (1, 32), False),
        ("kubectl", (2, 34), False),
        ("kind", (0, 30), True),
        ("kind", (0, 29), False),
        ("helm", (3, 17), True),
        ("helm", (4, 0), True),
        ("helm", (3, 9), False),
        ("helm", (2, 17), False),
    ],
)
def test_a_tool_on_path_is_used_only_in_a_suitable_version(
    tool: str, version: Version, suits: bool
) -> None:
    found = next(one for one in TOOLS if one.name == tool)

    assert found.suits(version) is suits


def test_a_version_is_read_from_what_a_program_prints(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_text('#!/bin/sh\necho "Client Version: v1.32.4-dispatcher"\n')
    program.chmod(0o755)

    assert version_of(str(program), ("version",)) == (1, 32)


def test_a_program_that_says_no_version_does_not_count(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)

    assert version_of(str(program), ("version",)) is None


def test_the_verdict_names_the_first_thing_that_blocks() -> None:
    findings = [
        Finding("kind", "missing", "build it"),
        Finding("docker", "does not answer", "Docker is not installed.", blocks=True),
    ]

    assert verdict(findings) == "This machine cannot make the cluster: Docker is not installed."
    assert "can run" in verdict(findings[:1])


def test_every_input_of_an_image_exists() -> None:
    missing = [one for image in IMAGES for one in image.inputs if not (names.ROOT / one).exists()]

    assert missing == []


def pod(*, ready: bool, state: dict[str, Any]) -> dict[str, Any]:
    return {"status": {"containerStatuses": [{"ready": ready, "state": state}]}}


def running(started: str) -> dict[str, Any]:
    return {"running": {"startedAt": started}}


@pytest.mark.parametrize(
    ("pods", "started"),
    [
        ([], False),
        ([{"status": {}}], False),
        ([pod(ready=True, state=running("2026-01-01T11:59:59Z"))], False),
        ([pod(ready=False, state=running("2026-01-01T12:00:09Z"))], False),
        ([pod(ready=False, state={"terminated": {}})], False),
        ([pod(ready=True, state=running("2026-01-01T12:00:00Z"))], True),
        (
            [
                pod(ready=True, state=running("2026-01-01T11:59:59Z")),
                pod(ready=True, state=running("2026-01-01T12:00:09Z")),
            ],
            True,
        ),
    ],
)
def test_what_the_api_shows_from_before_a_restart_of_the_node_does_not_count(
    pods: list[dict[str, Any]], started: bool
) -> None:
    assert has_started_since("2026-01-01T12:00:00.517293442Z", pods) is started


def node(ready: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Ready", "status": ready}]}}


@pytest.mark.parametrize(
    ("nodes", "ready"),
    [
        ([], False),
        ([node("True")], True),
        ([node("Unknown")], False),
        ([node("True"), node("False")], False),
        ([node("True"), {"status": {}}], False),
    ],
)
def test_a_cluster_is_ready_when_every_node_says_so(
    nodes: list[dict[str, Any]], ready: bool
) -> None:
    assert is_node_ready(nodes) is ready


def test_a_cluster_whose_node_cannot_be_started_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(cluster, "node_state", lambda: NodeState.STOPPED)
    monkeypatch.setattr(cluster, "answers", lambda command, **_: asked.append(command[1]))
    monkeypatch.setattr(cluster, "_delete", lambda: asked.append("delete"))

    assert not cluster._revive({})

    assert asked == ["restart", "delete"]
