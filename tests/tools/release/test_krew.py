"""The plugin of a release, unpacked and linked as krew does it."""

import platform
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from e2e.cluster.names import ROOT
from e2e.cluster.store import sha256
from release.krew import PLATFORMS, PYTHONS, Platform, manifest, plugin
from release.order import Order, Source
from tests.unit.cli.files import POOL, PROFILE

ORDER = Order("0.1.0", "registry.example.com", downloads="https://example.com/files/")
SOURCE = Source("0" * 40, 1_700_000_000)
MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
HERE = (platform.system().lower(), MACHINES[platform.machine()])
[OWN] = [each for each in PLATFORMS if (each.system, each.machine) == HERE]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def made(folder: Path, wheel: Path, of: Platform) -> Path:
    """Return the archive for this Python alone, and the manifest beside it."""
    work = folder / "work"
    work.mkdir(parents=True)
    plugin(ORDER, SOURCE, wheel=wheel, folder=folder, work=work, platforms=[of], pythons=[VERSION])
    [archive] = folder.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = ("-m", "hatchling", "build", "--target", "wheel", "--directory", folder)
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True)
    [found] = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    return made(tmp_path_factory.mktemp("archive"), wheel, OWN)


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Path:
    """The folder of the PATH with the link that krew makes."""
    root = tmp_path_factory.mktemp("krew")
    store, links = root / "store" / "tandem" / "v0.1.0", root / "bin"
    store.mkdir(parents=True)
    links.mkdir()
    with tarfile.open(archive) as packed:
        packed.extractall(store, filter="data")
    (links / "kubectl-tandem").symlink_to(store / "kubectl-tandem")
    (links / "kubectl_complete-tandem").symlink_to(store / "kubectl_complete-tandem")
    return links


def run(linked: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Return a command with nothing of this environment but the Python of these tests."""
    path = f"{linked}:/usr/bin:/bin"
    return subprocess.run(
        [linked / words[0], *words[1:]],
        env={"PATH": path, "TANDEM_PYTHON": sys.executable} | environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_it_runs_without_any_package_of_this_machine(linked: Path) -> None:
    told = run(linked, "kubectl-tandem", "--version")

    assert (told.returncode, told.stdout, told.stderr) == (0, "0.1.0\n", "")


def test_it_calls_itself_what_its_user_types(linked: Path) -> None:
    assert "Usage: kubectl tandem " in run(linked, "kubectl-tandem", "--help").stdout


def test_it_lints_a_pool(linked: Path) -> None:
    sample = str(ROOT / "manifests" / "samples" / "minimal.yaml")

    told = run(linked, "kubectl-tandem", "lint", sample)

    assert told.returncode == 0
    assert told.stderr.startswith("kubectl tandem lint: 0 findings in 1 InferencePool")


def test_it_has_the_client_of_a_cluster(linked: Path) -> None:
    told = run(linked, "kubectl-tandem", "doctor", KUBECONFIG="/nowhere")

    assert "/nowhere does not exist; name a kubeconfig that does" in told.stderr


def test_it_simulates_with_the_profiles_that_it_brings(linked: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.yaml"
    pool.write_text(POOL)

    words = ("simulate", "-f", str(pool), *PROFILE, "--generate", "poisson", "--span", "2s")
    told = run(linked, "kubectl-tandem", *words)

    assert told.returncode == 0, told.stderr


def test_the_tab_key_completes_commands(linked: Path) -> None:
    told = run(linked, "kubectl_complete-tandem", "do")

    assert told.stdout.split() == ["doctor", ":4"]


def test_without_a_python_that_fits_it_says_what_to_install(linked: Path, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("#!/bin/sh\necho cpython-39\n")
    (tmp_path / "old").chmod(0o755)
    for name in ("sh", "readlink", "dirname"):
        (tmp_path / name).symlink_to(f"/bin/{name}")
    told = run(linked, "kubectl-tandem", PATH=str(tmp_path), TANDEM_PYTHON=str(tmp_path / "old"))

    assert told.returncode == 1
    assert told.stderr.startswith("kubectl tandem: no Python 3.11 to 3.14 is on the PATH")


@pytest.mark.parametrize("of", PLATFORMS, ids=lambda of: f"{of.system}-{of.machine}")
def test_every_platform_has_a_wheel_of_each_package(
    tmp_path: Path, wheel: Path, of: Platform
) -> None:
    archive = made(tmp_path, wheel, of)

    with tarfile.open(archive) as packed:
        names = packed.getnames()
    compiled = [name for name in names if name.endswith(".so")]
    assert any("pydantic_core" in name for name in compiled)
    assert all(("darwin" in name) is (of.system == "darwin") for name in compiled)
    assert all(name.startswith(f"lib/cpython-{VERSION.replace('.', '')}/") for name in compiled)


def test_the_same_release_gives_the_same_archive(
    tmp_path: Path, wheel: Path, archive: Path
) -> None:
    assert sha256(made(tmp_path, wheel, OWN)) == sha256(archive)


def test_the_manifest_names_each_archive(archive: Path) -> None:
    document = yaml.safe_load((archive.parent / "tandem.krew.yaml").read_text())

    assert document == manifest(ORDER, {OWN: archive})
    [found] = document["spec"]["platforms"]
    assert found["uri"] == f"https://example.com/files/{archive.name}"
    assert found["sha256"] == sha256(archive)
    assert document["spec"]["version"] == "v0.1.0"
    with tarfile.open(archive) as packed:
        assert packed.getmember(found["bin"]).mode == 0o755


def test_the_plugin_looks_for_each_python_that_it_has_packages_for():
    script = (ROOT / "release" / "plugin" / "kubectl-tandem").read_text()

    looked_for = re.search(r"^for python in .* python3 (.*); do$", script, re.MULTILINE)

    assert looked_for is not None
    assert sorted(looked_for[1].split()) == [f"python{each}" for each in sorted(PYTHONS)]
    assert f"no Python {PYTHONS[0]} to {PYTHONS[-1]} is on the PATH" in script
