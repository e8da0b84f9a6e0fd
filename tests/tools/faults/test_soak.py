"""A loss in a soak is charged to the faults that it was open at, and to nothing else."""

from e2e.faults.evidence import Fate
from e2e.faults.scenario import Loss
from e2e.faults.soak import Blow, section, summary_of
from tests.tools.faults.scene import request, scenario


def summed(*requests):
    blows = [
        Blow(scenario(name="kind"), 100.0, 101.0),
        Blow(scenario(name="cruel", may_lose=Loss.HELD), 200.0, 201.0),
    ]
    return summary_of(requests, blows, minutes=5.0, rate_rps=2.0, seed=1, code="abc")


def lost(sent_s):
    return request(fate=Fate.LOST, why="cut off", sent_s=sent_s, ended_s=sent_s + 3.0)


def test_what_a_fault_may_cost_is_no_violation():
    summary = summed(request(), lost(199.0))

    assert summary.holds
    assert (summary.sent, summary.finished, summary.lost) == (2, 1, 1)
    assert summary.faults == {"kind": 1, "cruel": 1}


def test_a_loss_at_a_fault_that_may_cost_nothing_is_one():
    assert summed(lost(99.0)).without_cause == ["r-1: cut off"]


def test_a_loss_between_two_faults_is_one():
    assert not summed(lost(150.0)).holds


def test_wrong_content_is_one_whenever_it_came():
    assert summed(request(wrong="token 1 is 2", sent_s=199.0)).wrong == ["r-1: token 1 is 2"]


def test_the_page_tells_of_a_soak_once_there_was_one(tmp_path):
    assert section(tmp_path) == ""
    (tmp_path / "soak.json").write_text(summed(lost(150.0)).to_json())

    page = section(tmp_path)

    assert "| 1 | 0 | 0 | 1 | 1 | 0 | 0 | **no** |" in page
    assert "* r-1: cut off" in page
