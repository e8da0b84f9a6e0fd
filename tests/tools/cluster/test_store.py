"""The cache keeps whole results, notices damage and never shows half a result."""

import os
from pathlib import Path

import pytest

from e2e.cluster.store import entry_dir, fingerprint, is_whole, obtain


def make_two_files(folder: Path) -> None:
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "tool").chmod(0o755)
    (folder / "data").write_text("x" * 1000)


def obtain_counted(made: list[int]) -> Path:
    def make(folder: Path) -> None:
        made.append(1)
        make_two_files(folder)

    return obtain("thing", "key1", doing="making", make=make)


def test_a_result_is_made_once(cache: Path) -> None:
    made: list[int] = []

    first, second = obtain_counted(made), obtain_counted(made)

    assert first == second
    assert len(made) == 1
    assert (first / "data").read_text() == "x" * 1000


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: (entry / "data").write_text("short"),
        lambda entry: (entry / "data").write_text("y" * 1000),
        lambda entry: (entry / "data").unlink(),
        lambda entry: (entry / ".tandem-entry.json").unlink(),
        lambda entry: (entry / ".tandem-entry.json").write_text("{"),
    ],
    ids=["truncated", "same size, other bytes", "removed", "no manifest", "broken manifest"],
)
def test_a_damaged_result_is_made_again(cache: Path, damage) -> None:
    made: list[int] = []
    damage(obtain_counted(made))

    entry = obtain_counted(made)

    assert len(made) == 2
    assert is_whole(entry)
    assert (entry / "data").read_text() == "x" * 1000


def test_a_touched_but_equal_file_is_no_damage(cache: Path) -> None:
    made: list[int] = []
    os.utime(obtain_counted(made) / "data", (1, 1))

    obtain_counted(made)

    assert len(made) == 1


def test_a_failed_making_leaves_nothing_behind(cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise RuntimeError("no space")

    with pytest.raises(RuntimeError, match="no space"):
        obtain("thing", "key1", doing="making", make=fail)

    assert not entry_dir("thing", "key1").exists()
    assert list((cache / "entries").iterdir()) == []


def test_the_result_before_the_current_one_is_kept_and_older_ones_go(cache: Path) -> None:
    for age, key in enumerate(("a1", "b2", "c3")):
        entry = obtain("thing", key, doing="making", make=make_two_files)
        os.utime(entry, (1000 + age, 1000 + age))
    other = obtain("thing-else", "a1", doing="making", make=make_two_files)

    obtain("thing", "d4", doing="making", make=make_two_files)

    kept = {path.name for path in (cache / "entries").iterdir()}
    assert kept == {"thing-c3", "thing-d4", other.name}


def test_a_fingerprint_follows_names_contents_and_execute_bits(tmp_path: Path) -> None:
    def of() -> str:
        return fingerprint("1", files=[tmp_path / "d"], root=tmp_path)

    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("a")
    seen = [of()]
    (tmp_path / "d" / "a").write_text("b")
    seen.append(of())
    (tmp_path / "d" / "a").chmod(0o755)
    seen.append(of())
    (tmp_path / "d" / "a").rename(tmp_path / "d" / "c")
    seen.append(of())

    assert len(set(seen)) == 4


def test_a_fingerprint_ignores_compiled_python_and_the_place(tmp_path: Path) -> None:
    marks = []
    for root in (tmp_path / "one", tmp_path / "two"):
        (root / "d" / "__pycache__").mkdir(parents=True)
        (root / "d" / "a.py").write_text("a")
        (root / "d" / "__pycache__" / "a.pyc").write_text(str(root))
        marks.append(fingerprint(files=[root / "d"], root=root))

    assert marks[0] == marks[1]


def test_values_that_join_to_the_same_text_differ() -> None:
    assert fingerprint("ab", "c") != fingerprint("a", "bc")
