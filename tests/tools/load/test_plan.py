import itertools
import statistics

import pytest

from benchmarks.load.plan import Lengths, Traffic, plan_requests


def traffic(**changes):
    fields = {
        "name": "steady",
        "rate_rps": 20.0,
        "duration_s": 200.0,
        "prompt_tokens": Lengths(5, 60),
        "output_tokens": Lengths(1, 9),
    }
    return Traffic(**{**fields, **changes})


def test_equal_seeds_give_equal_plans_and_others_do_not():
    first = list(plan_requests(traffic(), seed=1))

    assert first == list(plan_requests(traffic(), seed=1))
    assert first != list(plan_requests(traffic(), seed=2))


def test_arrivals_are_poisson_at_the_asked_rate():
    moments = [request.at_s for request in plan_requests(traffic(), seed=3)]
    gaps = [after - before for before, after in itertools.pairwise(moments)]

    assert len(moments) / 200.0 == pytest.approx(20.0, rel=0.1)
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(1.0, abs=0.1)


def test_lengths_stay_in_their_range_and_prompts_differ_from_the_first_token_on():
    requests = list(plan_requests(traffic(), seed=4, vocabulary=1024))

    assert {len(request.prompt_token_ids) for request in requests} == set(range(5, 61))
    assert {request.output_tokens for request in requests} == set(range(1, 10))
    assert all(16 <= token < 1024 for request in requests for token in request.prompt_token_ids)
    assert len({request.prompt_token_ids for request in requests}) == len(requests)
    assert len({request.request_id for request in requests}) == len(requests)


@pytest.mark.parametrize("text", ["", "0", "9-3", "a-b", "-4", "3.5"])
def test_a_length_that_cannot_be_drawn_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="200-400"):
        Lengths.parse(text)


def test_lengths_read_back_as_written():
    assert Lengths.parse(str(Lengths(3, 70))) == Lengths(3, 70)
    assert Lengths.parse("8") == Lengths(8, 8)
