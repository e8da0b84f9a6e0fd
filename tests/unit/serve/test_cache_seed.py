import shutil
from pathlib import Path

import pytest

from tandem_engine.serve import entry
from tandem_engine.serve.engine_command import EngineCommand


def fill(seed: Path, cache: Path) -> None:
    command = EngineCommand(argv=("vllm",), env={"VLLM_CACHE_ROOT": str(cache)})
    entry._fill_cache(command, str(seed))


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    folder = tmp_path / "seed" / "modelinfos"
    folder.mkdir(parents=True)
    (folder / "llama.json").write_text("{}")
    return folder.parent


def test_a_cache_gets_what_the_image_brings_and_keeps_what_it_has(seed, tmp_path):
    cache = tmp_path / "cache"
    (cache / "modelinfos").mkdir(parents=True)
    (cache / "modelinfos" / "llama.json").write_text("kept")
    (seed / "modelinfos" / "qwen.json").write_text("new")

    fill(seed, cache)

    found = {path.name: path.read_text() for path in (cache / "modelinfos").iterdir()}
    assert found == {"llama.json": "kept", "qwen.json": "new"}


def test_two_pods_that_fill_a_cache_at_once_leave_whole_files(seed, tmp_path, monkeypatch):
    cache, copy = tmp_path / "cache", shutil.copyfile
    beside: list[str] = []

    def meets_another_pod(source, target):
        copy(source, target)
        if not beside:
            beside.append(target)
            # Of the same process id, since each container counts its own.
            fill(seed, cache)

    monkeypatch.setattr(shutil, "copyfile", meets_another_pod)
    fill(seed, cache)

    assert [path.name for path in (cache / "modelinfos").iterdir()] == ["llama.json"]
    assert (cache / "modelinfos" / "llama.json").read_text() == "{}"


def test_a_copy_that_fails_leaves_nothing_behind(seed, tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    fill(seed, tmp_path / "cache")

    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
