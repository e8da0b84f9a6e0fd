"""The program between Docker and runc removes only what the machine itself lacks."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import names

FULL = "000001ffffffffff"
WITHOUT_SYS_RESOURCE = "000001fffeffffff"
NAMES = ["CAP_CHOWN", "CAP_SYS_ADMIN", "CAP_SYS_RESOURCE"]

pytestmark = pytest.mark.skipif(
    shutil.which("go") is None, reason="built from Go, as on the machines that use it"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("bin") / "runc-filter"
    subprocess.run(
        ["go", "build", "-o", target, "./runc-filter"],
        cwd=names.MODULES / "node",
        env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"},
        check=True,
    )
    return target


def run(program: Path, place: Path, held: str, *words: str) -> list[str]:
    """Run it with a stand-in for runc that prints its arguments."""
    (place / "status").write_text(f"CapBnd:\t{held}\n")
    (place / "runc").write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    (place / "runc").chmod(0o755)
    result = subprocess.run(
        [program, *words],
        env={"RUNC_FILTER_STATUS": f"{place}/status", "RUNC_FILTER_RUNC": f"{place}/runc"},
        cwd=place,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.splitlines()


def process() -> dict[str, Any]:
    return {
        "args": ["sleep", "1"],
        "capabilities": {"bounding": NAMES, "effective": NAMES, "ambient": []},
        "rlimits": [{"type": "RLIMIT_CORE", "hard": 18446744073709551615}],
    }


@pytest.mark.parametrize("option", [("--bundle", "{}"), ("-b", "{}"), ("--bundle={}",), ()])
def test_a_container_asks_for_no_more_than_the_machine_has(
    program: Path, tmp_path: Path, option: tuple[str, ...]
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"process": process(), "root": {"path": "rootfs"}}))
    words = ["--root", "/run/x", "create", *(one.format(tmp_path) for one in option), "id"]

    passed = run(program, tmp_path, WITHOUT_SYS_RESOURCE, *words)

    left = json.loads(config.read_text())
    kept = ["CAP_CHOWN", "CAP_SYS_ADMIN"]
    assert left["process"]["capabilities"] == {"bounding": kept, "effective": kept, "ambient": []}
    assert left["process"]["rlimits"] == process()["rlimits"]
    assert left["root"] == {"path": "rootfs"}
    assert passed == words


@pytest.mark.parametrize("option", [("--process", "{}"), ("-p", "{}"), ("--process={}",)])
def test_a_command_run_in_a_container_is_filtered_too(
    program: Path, tmp_path: Path, option: tuple[str, ...]
) -> None:
    file = tmp_path / "process.json"
    file.write_text(json.dumps(process()))

    run(program, tmp_path, WITHOUT_SYS_RESOURCE, "exec", *(one.format(file) for one in option))

    assert json.loads(file.read_text())["capabilities"]["bounding"] == NAMES[:2]


def test_nothing_is_rewritten_on_a_machine_that_has_everything(
    program: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"process": process()}, indent=3))
    before = config.read_bytes()

    run(program, tmp_path, FULL, "create", "--bundle", str(tmp_path), "id")

    assert config.read_bytes() == before


def test_commands_without_a_configuration_pass_through(program: Path, tmp_path: Path) -> None:
    words = ["--log", "create.log", "delete", "--force", "id"]

    assert run(program, tmp_path, WITHOUT_SYS_RESOURCE, *words) == words
