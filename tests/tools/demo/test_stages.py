import sys

import pytest

from e2e import stages
from e2e.stages import SetUps, Stage, rounds, run_round, slowest


def made_up(folder, name, text, **options):
    path = folder / f"test_{name}.py"
    path.write_text(text)
    return Stage(name, "a made-up stage", pytest=(str(path),), **options)


def results_of(folder, *together):
    return run_round(together, SetUps(together, reports=folder), reports=folder)


@pytest.fixture
def result_of(tmp_path):
    """Run a stage over one made-up test file."""

    def run(text, *, targets=()):
        (result,) = results_of(tmp_path, made_up(tmp_path, "alone", text, targets=targets))
        return result

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


def test_the_files_that_took_longest_come_first_with_the_time_of_all_their_tests(tmp_path):
    cases = [("tests.a.test_quick", 1.0), ("tests.a.test_slow", 2.5), ("tests.a.test_slow", 2.0)]
    cases += [(f"tests.a.test_other_{number}", 0.1) for number in range(9)]
    lines = "".join(f'<testcase classname="{name}" time="{took}"/>' for name, took in cases)
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{lines}</testsuite></testsuites>")

    assert slowest(report)[:2] == [("test_slow", 4.5), ("test_quick", 1.0)]
    assert len(slowest(report)) == 5


def test_a_stage_without_any_test_has_not_passed(result_of):
    assert not result_of("").is_good


def test_a_stage_whose_tests_all_pass_is_good(result_of):
    assert result_of("def test_good(): pass\n").is_good


def test_a_stage_whose_set_up_fails_says_so_with_its_output_and_runs_no_test(result_of, capfd):
    result = result_of("def test_good(): pass\n", targets=("no-such-target",))

    assert not result.is_good
    assert str(result).startswith("alone: `make no-such-target` failed")
    assert "No rule to make target 'no-such-target'" in capfd.readouterr().out


def test_lanes_run_side_by_side_and_a_stage_without_one_is_alone(tmp_path):
    text = (
        "import os, pathlib, time\n"
        "def test_it_meets_the_other():\n"
        "    here = pathlib.Path(__file__).with_suffix('.here')\n"
        "    here.touch()\n"
        "    ends = time.monotonic() + 100\n"
        "    while len(list(here.parent.glob('*.here'))) < 2:\n"
        "        assert time.monotonic() < ends\n"
        "        time.sleep(0.02)\n"
    )
    first = made_up(tmp_path, "first", text, lane="left")
    second = made_up(tmp_path, "second", text, lane="right")
    third = made_up(tmp_path, "third", text)

    assert rounds([first, second, third]) == [[first, second], [third]]
    results = results_of(tmp_path, first, second)

    assert [result.stage.name for result in results] == ["first", "second"]
    assert all(result.is_good for result in results)


def test_stages_of_one_lane_run_in_turn(tmp_path):
    text = (
        "import pathlib, time\n"
        "def test_it_is_alone():\n"
        "    here = pathlib.Path(__file__).parent / 'busy'\n"
        "    here.touch(exist_ok=False)\n"
        "    time.sleep(0.2)\n"
        "    here.unlink()\n"
    )
    lane = [made_up(tmp_path, name, text, lane="left") for name in ("first", "second", "third")]

    assert rounds(lane) == [lane]
    assert all(result.is_good for result in results_of(tmp_path, *lane))


def test_what_a_stage_beside_another_says_is_shown_once_it_has_ended(tmp_path, capfd):
    first = made_up(tmp_path, "first", "def test_good(): pass\n", lane="left")
    second = made_up(
        tmp_path, "second", "def test_bad(): assert 'cheese' == 'chalk'\n", lane="right"
    )

    good, bad = results_of(tmp_path, first, second)

    assert good.is_good
    assert (bad.passed, bad.failed) == (0, 1)
    assert "AssertionError: assert 'cheese' == 'chalk'" in capfd.readouterr().out


def test_every_stage_has_tests_and_runs_in_this_python():
    assert stages.PYTEST[0] == sys.executable
    assert all(stage.pytest for stage in stages.STAGES)
