import sys

import pytest

from e2e import stages
from e2e.stages import Stage, run_stage


@pytest.fixture
def tests_that(tmp_path, monkeypatch):
    """A stage over one made-up test file."""
    monkeypatch.setattr(stages, "REPORTS", tmp_path)

    def make(text, *, targets=()):
        path = tmp_path / "test_made_up.py"
        path.write_text(text)
        return Stage("made-up", "a made-up stage", pytest=(str(path),), targets=targets)

    return make


def test_a_stage_counts_what_passed_failed_and_was_skipped(tests_that):
    result = run_stage(
        tests_that(
            "import pytest\n"
            "def test_good(): pass\n"
            "def test_bad(): assert 0\n"
            "@pytest.mark.skip\n"
            "def test_left_out(): pass\n"
        )
    )

    assert (result.passed, result.failed, result.skipped) == (1, 1, 1)
    assert not result.is_good


def test_a_stage_without_any_test_has_not_passed(tests_that):
    assert not run_stage(tests_that("")).is_good


def test_a_stage_whose_tests_all_pass_is_good(tests_that):
    assert run_stage(tests_that("def test_good(): pass\n")).is_good


def test_a_stage_whose_set_up_fails_says_so_and_runs_no_test(tests_that):
    result = run_stage(tests_that("def test_good(): pass\n", targets=("no-such-target",)))

    assert not result.is_good
    assert str(result).startswith("made-up: `make no-such-target` failed")


def test_every_stage_has_tests_and_runs_in_this_python():
    assert stages.PYTEST[0] == sys.executable
    assert all(stage.pytest for stage in stages.STAGES)
