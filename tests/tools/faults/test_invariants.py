"""Each invariant sees a made-up violation, and nothing where all is well."""

import pytest

from e2e.faults.evidence import Fate, Said
from e2e.faults.invariants import violations
from e2e.faults.scenario import Loss
from tandem_operator.core.role import Role
from tests.tools.faults.scene import evidence, moment, request, scenario


def test_a_run_in_which_all_is_well_violates_nothing():
    assert violations(scenario(), evidence()) == []


def lost(**changes):
    return request(fate=Fate.LOST, why="cut off", **changes)


@pytest.mark.parametrize(
    ("may_lose", "spoilt", "is_held"),
    [
        (Loss.NOTHING, lost(), False),
        (Loss.BEGUN, lost(began=True), True),
        (Loss.BEGUN, lost(began=None), True),
        (Loss.BEGUN, lost(began=False), False),
        (Loss.HELD, lost(began=False), True),
        (Loss.HELD, lost(sent_s=101.0), False),
        (Loss.BEGUN, lost(sent_s=101.0), False),
        (Loss.HELD, lost(sent_s=90.0, ended_s=99.0), False),
    ],
)
def test_a_request_is_lost_with_cause_only_if_what_was_killed_held_it(may_lose, spoilt, is_held):
    found = violations(scenario(may_lose=may_lose), evidence(requests=(request(), spoilt)))

    assert found == ([] if is_held else ["1 lost without cause: cut off"])


def test_a_refused_request_is_no_violation():
    assert violations(scenario(), evidence(requests=(request(fate=Fate.REFUSED),))) == []


def test_wrong_content_is_one_even_in_a_request_that_may_be_lost():
    wrong = lost(wrong="token 3 of 9 is 7, not 8")

    [found] = violations(scenario(may_lose=Loss.HELD), evidence(requests=(wrong,)))

    assert "wrong content in r-1: token 3 of 9 is 7, not 8" in found


def test_a_hanging_request_is_one():
    [found] = violations(scenario(), evidence(requests=(request(fate=Fate.HUNG),)))

    assert "hung" in found


def test_a_budget_exceeded_for_a_moment_is_one():
    [found] = violations(scenario(), evidence(moments=(moment(99.0), moment(110.0, gpus=6))))

    assert found == "6 GPUs were held with a budget of 5"


def test_a_shrink_while_metrics_are_missing_is_one_and_with_them_none():
    fewer = {Role.PREFILL: 2, Role.DECODE: 1}

    def shrunk(*, blind: bool):
        return evidence(moments=(moment(99.0, blind=blind), moment(110, asked=fewer, blind=blind)))

    assert violations(scenario(), shrunk(blind=False)) == []
    [found] = violations(scenario(), shrunk(blind=True))
    assert "decode went from 2 to 1 on missing data" in found


def test_one_role_at_zero_is_one_and_both_are_none():
    one = {Role.PREFILL: 0, Role.DECODE: 1}

    both = evidence(moments=(moment(), moment(110.0, asked=dict.fromkeys(Role, 0))))

    assert violations(scenario(), both) == []
    [found] = violations(scenario(), evidence(moments=(moment(), moment(110.0, asked=one))))
    assert "one role was asked to have no replica" in found


@pytest.mark.parametrize(
    ("at_s", "found"),
    [
        (102.0, []),
        (141.0, ["status named the culprit after 41 s only"]),
        (99.0, ["status never said anything like /no token/"]),
    ],
)
def test_a_culprit_is_named_in_time_after_the_fault(at_s, found):
    said = (Said(at_s, "pod d makes no token"),)

    assert violations(scenario(names="no token"), evidence(said=said)) == found


def test_a_pool_that_is_not_whole_again_in_time_is_one():
    torn = moment(101.0, whole=False)

    never = evidence(moments=(moment(99.0), torn))
    late = evidence(moments=(moment(99.0), moment(170.0, whole=False), moment(171.0)))

    assert violations(scenario(), never) == ["the pool was not whole again at the end"]
    assert violations(scenario(recovers_s=30.0), late) == [
        "the pool was whole again after 70 s, not 30 s"
    ]


def test_a_pool_that_still_refuses_has_not_recovered():
    refused = request(fate=Fate.REFUSED, sent_s=150.0)

    assert evidence(requests=(refused,)).recovered_s == 50.0


def test_a_promise_of_the_scenarios_own_that_was_broken_is_one():
    assert violations(scenario(), evidence(broken=("the operator ended",))) == [
        "the operator ended"
    ]
