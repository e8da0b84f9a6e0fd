"""Checkouts are compared round by round: what befalls a whole round says nothing of either."""

from benchmarks.router.paired import table


def test_a_round_in_which_everything_was_slow_leaves_the_comparison_as_it_is() -> None:
    done = {
        "flood": [
            {
                "before": {"tokens_per_core_s": pace, "ttft_p50_ms": 10.0},
                "here": {"tokens_per_core_s": 1.1 * pace, "ttft_p50_ms": 5.0},
            }
            for pace in (100.0, 50.0, 200.0)
        ]
    }

    before, here = table(done, base="before").splitlines()[2:]

    assert before == (
        "| flood | before | 100 (50..200) | +0.0% (middle half +0.0%..+0.0%)"
        " | 10.00 (10.00..10.00) | +0.0% (middle half +0.0%..+0.0%) |"
    )
    assert here == (
        "| flood | here | 110 (55..220) | +10.0% (middle half +10.0%..+10.0%)"
        " | 5.00 (5.00..5.00) | -50.0% (middle half -50.0%..-50.0%) |"
    )
