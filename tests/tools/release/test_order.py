"""The refusals before anything is built, each in one sentence."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.cluster.names import ROOT
from e2e.cluster.progress import CannotContinueError
from release.order import Order, check_order, project_version, source_of, version_problem

VERSION = project_version()
PLACE = "registry.example.com/team"


def tree(folder: Path, *, chart_version: str = VERSION) -> Path:
    """Return the files that say a version."""
    for name in ("pyproject.toml", "charts/tandem/Chart.yaml", "charts/tandem-crds/Chart.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    chart = folder / "charts" / "tandem-crds" / "Chart.yaml"
    chart.write_text(chart.read_text().replace(VERSION, chart_version))
    return folder


def test_this_tree_agrees_on_its_version() -> None:
    assert version_problem(VERSION, ROOT) is None


@pytest.mark.parametrize("version", ["v0.1.0", "0.1", "0.1.0-rc1", "0.1.0+x", "01.0.0", "latest"])
def test_a_version_is_three_numbers(version: str) -> None:
    problem = version_problem(version, ROOT)

    assert problem is not None
    assert problem.endswith("which is not three numbers; write it as VERSION=0.1.0.")


def test_a_missing_version_is_answered_with_the_one_that_works() -> None:
    assert version_problem("", ROOT) == f"VERSION is missing; write VERSION={VERSION}."


def test_the_tree_says_the_version_that_is_released() -> None:
    problem = version_problem("9.9.9", ROOT)

    assert problem == (
        f"VERSION is 9.9.9, but pyproject.toml says {VERSION}; write 9.9.9 there first."
    )


def test_a_chart_of_another_version_is_named(tmp_path: Path) -> None:
    problem = version_problem(VERSION, tree(tmp_path, chart_version="0.0.1"))

    assert problem is not None
    assert "but version in charts/tandem-crds/Chart.yaml says 0.0.1" in problem


@pytest.mark.parametrize(
    "registry",
    ["localhost:5000", "127.0.0.1:5001", "ghcr.io/your-name", "r.example.com:443/a/b", PLACE],
)
def test_a_host_with_or_without_a_path_is_a_registry(registry: str) -> None:
    check_order(Order(VERSION, registry, push=registry != PLACE))


@pytest.mark.parametrize(
    "registry", ["https://ghcr.io", "ghcr.io/", "team", "ghcr.io/Team", "", "a b.c", "--plain"]
)
def test_what_is_no_registry_is_refused(registry: str) -> None:
    with pytest.raises(CannotContinueError, match=r"^REGISTRY is .* write its host without"):
        check_order(Order(VERSION, registry))


def test_nothing_is_pushed_to_the_host_that_stands_for_one() -> None:
    with pytest.raises(CannotContinueError, match="PUSH needs a registry of yours"):
        check_order(Order(VERSION, "registry.example.com", push=True))


def test_a_tree_with_changes_is_released_as_a_trial_only(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "First"], check=True)
    clean = source_of(trial=False, root=tmp_path)
    (tmp_path / "new.py").write_text("")

    with pytest.raises(CannotContinueError, match=r"The tree has 1 changes? \(new\.py\)"):
        source_of(trial=False, root=tmp_path)

    trial = source_of(trial=True, root=tmp_path)
    assert trial == replace(clean, changed=True)
    assert trial.revision == f"{clean.revision}-dirty"
    assert len(clean.revision) == 40


@pytest.mark.parametrize("downloads", ["http://a.b", "a.b/c", "https://a.b/c?d", "https://u:p@a.b"])
def test_files_are_fetched_from_a_folder_over_https(downloads: str) -> None:
    with pytest.raises(CannotContinueError, match=r"DOWNLOADS is '.*; write it as DOWNLOADS=https"):
        check_order(Order(VERSION, PLACE, downloads=downloads))
