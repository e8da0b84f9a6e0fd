"""A finished run is kept as long as nothing that it depends on changes, and only if it finished."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.simulator.kept import kept


class Counted:
    """A run that says how often it was made."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> dict[str, Any]:
        self.made += 1
        return {"made": self.made}


def test_the_same_is_run_once(tmp_path: Path) -> None:
    run = Counted()

    first, second = (kept(["A", 60.0], tmp_path, run, made_by=[]) for _ in range(2))

    assert first == second == {"made": 1}


def test_another_run_or_other_code_is_run_anew(tmp_path: Path) -> None:
    run, code = Counted(), tmp_path / "code.py"
    code.write_text("one")

    kept(["A"], tmp_path, run, made_by=[code])
    kept(["B"], tmp_path, run, made_by=[code])
    code.write_text("two")
    kept(["A"], tmp_path, run, made_by=[code])

    assert run.made == 3


def test_a_run_that_was_stopped_is_not_taken_for_one_that_ended(tmp_path: Path) -> None:
    def stopped() -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept(["A"], tmp_path, stopped, made_by=[])

    assert kept(["A"], tmp_path, Counted(), made_by=[]) == {"made": 1}
