import sys

import pytest

from e2e import stages
from e2e.stages import Stage, run_stage


@pytest.fixture
def result_of(tmp_path):
    """Run a stage over one made-up test file."""

    def run(text, *, targets=()):
        path = tmp_path / "test_made_up.py"
        path.write_text(text)
        stage = Stage("made-up", "a made-up stage", pytest=(str(path),), targets=targets)
        return run_stage(stage, reports=tmp_path)

    return run


def test_a_stage_counts_what_passed_failed_and_was_skipped(result_of):
    result = result_of(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 0\n"
        "@pytest.mark.skip\n"
        "def test_left_out(): pass\n"
    )

    assert (result.passed, result.failed, result.skipped) == (1, 1, 1)
    assert not result.is_good


def test_a_stage_without_any_test_has_not_passed(result_of):
    assert not result_of("").is_good


def test_a_stage_whose_tests_all_pass_is_good(result_of):
    assert result_of("def test_good(): pass\n").is_good


def test_a_stage_whose_set_up_fails_says_so_and_runs_no_test(result_of):
    result = result_of("def test_good(): pass\n", targets=("no-such-target",))

    assert not result.is_good
    assert str(result).startswith("made-up: `make no-such-target` failed")


def test_every_stage_has_tests_and_runs_in_this_python():
    assert stages.PYTEST[0] == sys.executable
    assert all(stage.pytest for stage in stages.STAGES)
