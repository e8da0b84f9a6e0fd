"""The README's commands, found and run."""

import time
from pathlib import Path

import yaml
from typer.testing import CliRunner

from e2e.cluster.names import ROOT
from e2e.quickstart.readme import commands, pool, with_pool
from e2e.quickstart.shell import run_commands
from release.order import project_version
from tandem_operator.cli.app import app

SAMPLE = ROOT / "manifests/samples/quickstart-cpu.yaml"
BLOCK = commands((ROOT / "README.md").read_text())


def test_the_block_is_three_commands_with_the_registry_as_a_variable() -> None:
    begun = [line.split()[0] for line in BLOCK.splitlines() if line[:1].isalpha()]
    own = [word for word in begun if word in {"helm", "kubectl", "curl"}]

    assert own == ["helm", "kubectl", "kubectl", "curl"]
    assert "helm install tandem oci://$REGISTRY/charts/tandem " in BLOCK
    assert BLOCK.count("$") == 1


def test_the_commands_install_the_version_of_this_tree() -> None:
    assert f" --version {project_version()} " in BLOCK


def test_the_pool_of_the_readme_is_clean(tmp_path: Path) -> None:
    (tmp_path / "pool.yaml").write_text(pool(BLOCK))

    result = CliRunner().invoke(app, ["lint", str(tmp_path / "pool.yaml")])

    assert (result.exit_code, result.stdout) == (0, "")


def test_the_pool_without_gpus_has_the_same_names() -> None:
    on_gpus, on_cpu = yaml.safe_load(pool(BLOCK)), yaml.safe_load(SAMPLE.read_text())

    assert on_gpus["metadata"] == on_cpu["metadata"]
    assert on_gpus["spec"]["model"]["name"] == on_cpu["spec"]["model"]["name"]


def test_only_the_pool_differs_without_gpus() -> None:
    changed = with_pool(BLOCK, SAMPLE.read_text())

    assert pool(changed) == SAMPLE.read_text()
    assert with_pool(changed, pool(BLOCK)) == BLOCK


def test_the_howto_shows_the_pool_without_gpus() -> None:
    page = (ROOT / "docs/how-to/install.md").read_text()

    assert "(../../manifests/samples/quickstart-cpu.yaml)" in page


def test_commands_run_elsewhere_and_what_they_leave_behind_ends(tmp_path: Path) -> None:
    block = "echo $REGISTRY in $PWD\nsleep 300 &\necho $! > pid\n"

    status, lines = run_commands(
        block, folder=tmp_path, environment={"REGISTRY": "r"}, timeout_s=100
    )

    assert (status, [line.text for line in lines]) == (0, [f"r in {tmp_path}"])
    left_s = time.monotonic() + 60
    while runs((tmp_path / "pid").read_text().strip()):
        assert time.monotonic() < left_s
        time.sleep(0.05)


def runs(pid: str) -> bool:
    """Return whether a process is there and not just waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_commands_that_fail_or_do_not_end_say_so(tmp_path: Path) -> None:
    failed, _ = run_commands("false\necho on\n", folder=tmp_path, environment={}, timeout_s=100)
    endless, lines = run_commands(
        "echo here\nsleep 300\n", folder=tmp_path, environment={}, timeout_s=5
    )

    assert failed == 1
    assert (endless, [line.text for line in lines]) == (124, ["here"])
