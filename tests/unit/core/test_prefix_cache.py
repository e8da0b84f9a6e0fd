from dataclasses import replace

import pytest

from tandem_operator.core.observation import ArrivalSecond
from tandem_operator.core.observe.arrivals import Arrivals, merge
from tandem_operator.core.observe.prefix_cache import cached_shares
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


def shares(arrivals: Arrivals) -> dict[int, float]:
    return dict(cached_shares(arrivals, first_s=arrivals.end_s - 180))


def share(arrivals: Arrivals) -> float:
    """Return the share of the only length."""
    (found,) = shares(arrivals).values()
    return found


SHORT, LONG = 1, 3
"""The buckets of prompts of 400 and of 8,000 tokens."""


def mixed(second: float, *, hits: float, short: int = 1, long: int = 1) -> ArrivalSecond:
    """Return short prompts, which no cache has, and long ones with that share of hits."""
    few, many = arrival(second, short, 400), arrival(second, long, 8000)
    return ArrivalSecond(
        int(second),
        tuple(map(sum, zip(few.requests, many.requests, strict=True))),
        tuple(map(sum, zip(few.prompt_tokens, many.prompt_tokens, strict=True))),
        cached_tokens=round(hits * 8000 * long),
        cached_by_bucket=(0, 0, 0, round(hits * 8000 * long)),
    )


def of_lengths(*rows: ArrivalSecond) -> dict[int, float]:
    return shares(merge([report(arrivals=rows)], expected=1))


def test_steady_hits_are_their_mean() -> None:
    assert share(seen([HIT] * 180)) == pytest.approx(0.8)


def test_a_lull_leaves_the_share_as_it_was() -> None:
    rows = [replace(arrival(NOW_S - 180 + i, 4, PROMPT), cached_tokens=4 * HIT) for i in range(100)]

    assert share(merge([report(arrivals=rows)], expected=1)) == pytest.approx(0.8)


def test_hits_without_a_prompt_are_none() -> None:
    assert shares(seen([HIT] * 20, rate=0)) == {}
    rows = [replace(arrival(NOW_S - 5, 0), cached_tokens=HIT)]
    assert shares(merge([report(arrivals=rows)], expected=1)) == {}


def test_a_collapse_counts_within_ten_seconds() -> None:
    assert share(seen([HIT] * 170 + [0] * 10)) < 0.1


def test_hits_that_a_leaving_pod_takes_along_are_no_collapse() -> None:
    leaving = seen([HIT] * 170 + [0] * 10)

    (moving,) = cached_shares(leaving, first_s=leaving.end_s - 180, moving=True).values()

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
    assert shares(seen([0] * 60)) == {}
    assert shares(merge([report()], expected=1)) == {}


def test_long_prompts_can_hit_while_short_ones_do_not() -> None:
    found = of_lengths(*(mixed(NOW_S - at, hits=0.9) for at in range(1, 181)))

    assert found[SHORT] == pytest.approx(0.0, abs=0.02)
    assert found[LONG] == pytest.approx(0.9, abs=0.01)


def test_a_length_that_hardly_came_is_expected_to_hit_like_the_others() -> None:
    rows = [mixed(NOW_S - at, hits=0.9, short=int(at == 60)) for at in range(1, 181)]

    assert 0.4 < of_lengths(*rows)[SHORT] < 0.9


def test_more_short_prompts_do_not_end_the_hits_of_long_ones() -> None:
    rows = [mixed(NOW_S - at, hits=0.9) for at in range(31, 181)]
    recent = [mixed(NOW_S - at, hits=0.9, short=40, long=int(at % 10 == 5)) for at in range(1, 31)]

    assert of_lengths(*rows, *recent)[LONG] == pytest.approx(0.9, abs=0.02)


def test_a_collapse_of_the_hits_of_long_prompts_counts_within_ten_seconds() -> None:
    rows = [mixed(NOW_S - at, hits=0.9 if at > 10 else 0.0) for at in range(1, 181)]

    assert of_lengths(*rows)[LONG] < 0.1


def test_a_router_that_does_not_tell_lengths_tells_the_hits_of_all() -> None:
    rows = [replace(mixed(NOW_S - at, hits=0.9), cached_by_bucket=()) for at in range(1, 181)]

    found = of_lengths(*rows)

    assert found[SHORT] == pytest.approx(found[LONG], rel=0.001)
    assert found[LONG] == pytest.approx(0.9 * 8000 / 8400, rel=0.001)


def test_routers_of_two_versions_count_by_their_prompts() -> None:
    new = [mixed(NOW_S - at, hits=0.8) for at in range(1, 181)]
    old = [replace(row, cached_by_bucket=()) for row in new]

    found = shares(
        merge([report(arrivals=new), report(router="router-2", arrivals=old)], expected=2)
    )

    all_hit = 0.8 * 8000 / 8400
    assert found[SHORT] == pytest.approx(all_hit / 2, abs=0.02)
    assert found[LONG] == pytest.approx((0.8 + all_hit) / 2, abs=0.01)


def test_more_cached_tokens_than_a_prompt_has_are_not_believed() -> None:
    rows = [
        replace(mixed(NOW_S - at, hits=0.9), cached_by_bucket=(0, 10**9, 0, 10**9))
        for at in range(1, 181)
    ]

    assert max(of_lengths(*rows).values()) <= 0.95
