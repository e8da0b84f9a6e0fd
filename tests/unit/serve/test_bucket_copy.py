"""Weights of a bucket in a folder that engines share: one copy, whole or not there at all."""

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tandem_engine.serve.bucket_copy import FetchError, can_fetch, fetch
from tandem_engine.serve.object_storage import folder_of

URI = "s3://models/llama"
FAKE = """
import os, pathlib, sys, time

def pull_files(uri, folder, allow_pattern=None, ignore_pattern=None):
    with open(os.environ["ASKED"], "a") as asked:
        asked.write(uri + "\\n")
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.01)
    for name in os.environ["FILES"].split():
        pathlib.Path(folder, name).write_text(name)
    if os.environ.get("FAILURE"):
        sys.exit(os.environ["FAILURE"])
"""


class Bucket:
    """A library that copies from a bucket, as another process finds it."""

    def __init__(self, folder: Path) -> None:
        (folder / "lib").mkdir()
        (folder / "lib" / "runai_model_streamer.py").write_text(FAKE)
        self.asked, self.go, self.into = folder / "asked", folder / "go", folder / "cache"
        self.model = folder_of(URI, into=str(self.into))
        self.asked.touch()
        self.go.touch()
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(folder / "lib"),
            "ASKED": str(self.asked),
            "GO": str(self.go),
            "FILES": "config.json model.safetensors",
        }

    def fetch(self, **environment: str) -> Path:
        given = {**self.environment, **environment}
        fetch(URI, folder=self.model, python=sys.executable, environment=given)
        return self.model

    def times(self) -> int:
        return len(self.asked.read_text().splitlines())

    def left(self) -> list[str]:
        return sorted(each.name for each in self.into.iterdir() if not each.name.endswith(".lock"))


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return Bucket(tmp_path)


def test_the_second_engine_finds_what_the_first_fetched(bucket: Bucket) -> None:
    bucket.fetch()
    found = bucket.fetch()

    assert (found / "model.safetensors").read_text() == "model.safetensors"
    assert bucket.asked.read_text() == f"{URI}/\n"
    assert bucket.left() == [found.name]


def test_an_engine_that_comes_meanwhile_waits_and_fetches_nothing(bucket: Bucket) -> None:
    bucket.go.unlink()
    engines = [engine(bucket) for _ in range(3)]
    try:
        until(lambda: bucket.times() == 1)
        bucket.go.touch()
        assert [each.wait(timeout=60) for each in engines] == [0, 0, 0]
    finally:
        for each in engines:
            each.kill()

    assert bucket.times() == 1
    assert bucket.left() == [bucket.model.name]


def test_what_a_killed_engine_left_is_not_taken_for_the_model(bucket: Bucket) -> None:
    bucket.go.unlink()
    killed = engine(bucket)
    until(lambda: bucket.times() == 1)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait(timeout=60)
    (half,) = bucket.left()
    bucket.go.touch()
    bucket.fetch()

    assert half.startswith(f".{bucket.model.name}-")
    # Another node may still be at work on it.
    assert bucket.left() == [half, bucket.model.name]

    shutil.rmtree(bucket.model)
    os.utime(bucket.into / half, (0, 0))
    bucket.fetch()

    assert bucket.left() == [bucket.model.name]


def test_two_nodes_without_a_common_lock_leave_one_whole_copy(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    bucket.go.unlink()
    elsewhere = engine(bucket)
    try:
        until(lambda: bucket.times() == 1)
        bucket.go.touch()
        bucket.fetch()
        assert elsewhere.wait(timeout=60) == 0
    finally:
        elsewhere.kill()

    assert bucket.left() == [bucket.model.name]
    assert (bucket.model / "model.safetensors").read_text() == "model.safetensors"


def test_an_engine_that_is_told_to_leave_stops_the_copy_and_leaves_nothing(bucket: Bucket) -> None:
    bucket.go.unlink()
    leaving = engine(bucket)
    until(lambda: bucket.times() == 1)
    leaving.terminate()

    assert leaving.wait(timeout=60) == 0
    assert bucket.left() == []


def test_a_copy_that_fails_says_why_and_leaves_nothing(bucket: Bucket) -> None:
    denied = "botocore.exceptions.NoCredentialsError: Unable to locate credentials"

    with pytest.raises(FetchError, match="no credentials for the bucket") as failure:
        bucket.fetch(FAILURE=denied)

    assert str(failure.value).startswith("the copy of the weights ended with code 1")
    assert bucket.left() == []


def test_a_folder_without_a_model_is_none(bucket: Bucket) -> None:
    with pytest.raises(FetchError, match=f"--model: there is no config.json below {URI}"):
        bucket.fetch(FILES="readme.txt")

    assert bucket.left() == []


@pytest.mark.parametrize("step", ["mkdir", "open", "rename"])
def test_a_cache_that_takes_no_copy_is_one_sentence(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, step, full)

    with pytest.raises(FetchError) as failure:
        bucket.fetch()

    assert str(failure.value).startswith(
        f"the copy of the weights cannot be kept in {bucket.into}: No space left on device; give"
    )
    assert "\n" not in str(failure.value)
    assert step != "rename" or bucket.left() == []


def test_a_cache_that_cannot_be_written_is_left_alone_unless_it_has_the_model(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def refuse(path: object, _: int) -> bool:
        asked.append(path)
        return False

    assert can_fetch(bucket.model)
    monkeypatch.setattr(os, "access", refuse)
    assert not can_fetch(bucket.model)
    # The nearest folder that is there tells.
    assert asked == [bucket.into.parent]

    bucket.model.mkdir(parents=True)
    assert can_fetch(bucket.model)


def test_a_cache_that_cannot_be_looked_into_takes_no_copy(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "is_dir", closed)

    assert not can_fetch(bucket.model)


def test_signals_are_afterwards_as_they_were(bucket: Bucket) -> None:
    before = signal.getsignal(signal.SIGTERM)

    bucket.fetch()

    assert signal.getsignal(signal.SIGTERM) is before


def engine(bucket: Bucket) -> "subprocess.Popen[bytes]":
    """Return another launcher that fetches the same model."""
    code = (
        "import os, pathlib, sys; from tandem_engine.serve.bucket_copy import fetch;"
        f"fetch({URI!r}, folder=pathlib.Path({str(bucket.model)!r}), python=sys.executable,"
        " environment={**os.environ, 'PYTHONPATH': os.environ['LIBRARY']})"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={
            **bucket.environment,
            "LIBRARY": bucket.environment["PYTHONPATH"],
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        start_new_session=True,
    )


def until(holds) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
