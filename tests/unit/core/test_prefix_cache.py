from dataclasses import replace

import pytest

from tandem_operator.core.observe.arrivals import Arrivals, merge
from tandem_operator.core.observe.prefix_cache import cached_share
from tests.unit.core.scene import NOW_S, arrival, report

PROMPT, HIT = 1000, 800


def seen(hits: list[int], *, rate: int = 4, queued: int = 0, prefilling: int = 0) -> Arrivals:
    """Return a report with an entry of `hits` a second: the cached tokens of its requests."""
    begin_s = NOW_S - len(hits)
    rows = [
        replace(arrival(begin_s + i, rate, PROMPT), cached_tokens=rate * hit)
        for i, hit in enumerate(hits)
    ]
    return merge(
        [
            report(
                arrivals=rows,
                queued_prompt_tokens=queued * PROMPT,
                queued_requests=queued,
                prefill_requests=prefilling,
            )
        ],
        expected=1,
    )


def share(arrivals: Arrivals) -> float:
    return cached_share(arrivals, first_s=arrivals.end_s - 180)


def test_steady_hits_are_their_mean() -> None:
    assert share(seen([HIT] * 180)) == pytest.approx(0.8)


def test_a_lull_leaves_the_share_as_it_was() -> None:
    rows = [replace(arrival(NOW_S - 180 + i, 4, PROMPT), cached_tokens=4 * HIT) for i in range(100)]

    assert share(merge([report(arrivals=rows)], expected=1)) == pytest.approx(0.8)


def test_hits_without_a_prompt_are_none() -> None:
    assert share(seen([HIT] * 20, rate=0)) == 0.0
    rows = [replace(arrival(NOW_S - 5, 0), cached_tokens=HIT)]
    assert share(merge([report(arrivals=rows)], expected=1)) == 0.0


def test_a_collapse_counts_within_ten_seconds() -> None:
    assert share(seen([HIT] * 170 + [0] * 10)) < 0.1


def test_hits_that_a_leaving_pod_takes_along_are_no_collapse() -> None:
    leaving = seen([HIT] * 170 + [0] * 10)

    moving = cached_share(leaving, first_s=leaving.end_s - 180, moving=True)

    assert moving == pytest.approx(0.8 * 170 / 180)


def test_hits_that_begin_count_as_soon() -> None:
    assert share(seen([0] * 170 + [HIT] * 10)) > 0.7


def test_hits_that_come_and_go_by_chance_are_their_mean() -> None:
    # Every third request hits wholly: ten seconds see a few more or less of them.
    changing = [PROMPT * (i * i % 7 in (1, 4)) for i in range(180)]

    assert share(seen(changing, rate=1)) == pytest.approx(sum(changing) / 180 / PROMPT, abs=0.08)


def test_prompts_that_still_wait_are_no_misses() -> None:
    # The newest 24 requests are queued: nothing can be known of their hits.
    assert share(seen([HIT] * 174 + [0] * 6, queued=20, prefilling=4)) == pytest.approx(
        0.8, abs=0.05
    )


def test_a_long_queue_of_old_requests_makes_no_hits() -> None:
    assert share(seen([HIT] * 180, queued=400)) == pytest.approx(0.8)


def test_a_collapse_is_seen_through_a_queue() -> None:
    assert share(seen([HIT] * 160 + [0] * 20, queued=40)) < 0.2


def test_without_a_hit_the_share_is_zero_and_no_rows_are_no_share() -> None:
    assert share(seen([0] * 60)) == 0.0
    assert share(merge([report()], expected=1)) == 0.0
