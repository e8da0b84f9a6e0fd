"""The matrix is whole: 40 scenarios, each with a name of its own and something that undoes it."""

import re

import pytest

from e2e.faults.catalogue import SCENARIOS, chosen
from e2e.faults.scenario import Family
from e2e.faults.soak import candidates


def test_there_are_forty_with_names_of_their_own_in_all_families():
    assert len({each.name for each in SCENARIOS}) == len(SCENARIOS) == 40
    assert {each.family for each in SCENARIOS} == set(Family)


def test_each_says_in_a_sentence_what_is_done_and_undone():
    for each in SCENARIOS:
        assert each.what.endswith(".")
        assert each.undone.endswith(".")
        re.compile(each.names or "")


def test_scenarios_are_chosen_by_the_beginning_of_name_or_family():
    assert {each.name for each in chosen(["decode-core"])} == {
        f"decode-core-stopped-{seconds}" for seconds in (20, 40, 85)
    }
    assert {each.family for each in chosen(["metrics"])} == {Family.METRICS}
    with pytest.raises(ValueError, match="nonsense"):
        chosen(["nonsense"])


def test_a_soak_draws_on_many_faults_that_are_over_within_a_minute():
    assert len(candidates()) >= 12
