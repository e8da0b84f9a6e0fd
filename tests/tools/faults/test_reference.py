"""Answers are compared token by token, also those that broke off."""

import pytest

from benchmarks.load.record import Outcome, Record
from e2e.faults.reference import Question, Reference

QUESTION = Question(prompt=(20, 21), answer=(5, 6, 7))


def record(*tokens, outcome=Outcome.FINISHED):
    return Record(
        request_id="r",
        traffic="t",
        sent_s=0.0,
        late_s=0.0,
        elapsed_s=1.0,
        prompt_tokens=2,
        output_tokens=len(tokens),
        outcome=outcome,
        token_ids=tokens,
    )


@pytest.mark.parametrize(
    ("came", "difference"),
    [
        (record(5, 6, 7), None),
        (record(5, 6, outcome=Outcome.FAILED), None),
        (record(outcome=Outcome.FAILED), None),
        (record(5, 9, 7), "token 2 of 3 is 9, not 6"),
        (record(9, outcome=Outcome.FAILED), "token 1 of 3 is 9, not 5"),
        (record(5, 6), "the answer ended after 2 of 3 tokens"),
        (record(5, 6, 7, 7), "4 tokens came, not 3"),
    ],
)
def test_a_difference_is_found_wherever_it_is(came, difference):
    assert QUESTION.difference(came) == difference


def test_equal_seeds_ask_the_same_and_no_two_requests_share_a_prefix(tmp_path):
    reference = Reference((QUESTION, Question((30,), (8,))))
    reference.write(tmp_path / "reference.json")

    def plan(seed):
        read = Reference.read(tmp_path / "reference.json")
        return read.plan(seed=seed, rate_rps=5.0, duration_s=20.0, run="x", streamed_share=0.5)

    def asked(planned):
        return [(each.at_s, each.prompt_token_ids, each.streamed) for each, _ in planned]

    first = plan(1)
    assert asked(first) == asked(plan(1)) != asked(plan(2))
    assert len({each.cache_salt for each, _ in first}) == len(first) > 50
    assert {each.streamed for each, _ in first} == {True, False}
