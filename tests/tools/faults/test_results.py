"""Results are kept line by line, played once, and made into a page."""

from e2e.faults import runner, table
from e2e.faults.evidence import Fate
from e2e.faults.results import Result, newest
from e2e.faults.scenario import Loss, Where
from tests.tools.faults.scene import evidence, request, scenario


def played(tmp_path, *scenarios, seeds=(1,), code="abc", again=False):
    return runner.run(
        scenarios, seeds=seeds, code=code, tell=lambda _: None, folder=tmp_path, again=again
    )


def test_a_result_reads_back_as_it_was(tmp_path):
    [result] = played(tmp_path, scenario())

    assert Result.from_json(result.to_json()) == result
    assert newest([runner.results_path(Where.KIND, folder=tmp_path)]) == {
        ("pod-deleted", 1): result
    }


def test_what_this_code_has_played_is_not_played_again(tmp_path):
    plays = []

    def play(stage):
        plays.append(stage.seed)
        return evidence()

    counted = scenario(play=play)
    played(tmp_path, counted, seeds=(1, 2))
    played(tmp_path, counted, seeds=(1, 2, 3))
    played(tmp_path, counted, seeds=(3,), again=True)
    played(tmp_path, counted, seeds=(3,), code="def")

    assert plays == [1, 2, 3, 3, 3]


def test_a_play_that_breaks_is_a_violation_and_ends_no_other(tmp_path):
    def broken(stage):
        raise OSError("no cluster")

    first, second = played(tmp_path, scenario(name="broken", play=broken), scenario(), code="abc")

    assert first.violations == ["it could not be played: OSError: no cluster"]
    assert second.holds


def test_the_page_counts_all_runs_and_shows_what_does_not_hold(tmp_path):
    def bad(stage):
        return evidence(
            requests=(request(), request(fate=Fate.LOST, why="cut off", wrong="token 1 is 2"))
        )

    holding, violated = scenario(name="mended"), scenario(name="spoilt", play=bad)
    missing = scenario(name="never-played", may_lose=Loss.HELD)
    played(tmp_path, holding, violated, seeds=(1, 2))

    page = table.page(
        (holding, violated, missing), runner.all_results(tmp_path), command="make faults"
    )

    assert "**1 of 3 scenarios hold in every run**; 2 were played, 4 runs" in page
    assert "6 requests: 4 finished, 0 refused, 2 lost, 0 hung, 2 wrong" in page
    assert "**no**, in 2 of 2" in page
    assert "`spoilt`, seed 2 at abc: 1 lost without cause: cut off; wrong content" in page
    assert "| not played |" in page


def test_the_page_says_at_which_commits_its_status_was_said(tmp_path):
    played(tmp_path, scenario(), code="abc")

    page = table.page((scenario(),), runner.all_results(tmp_path), command="make faults")

    assert "Status is quoted as it was said at the commits of the runs." in page
    assert "Made with `make faults` at abc." in page
