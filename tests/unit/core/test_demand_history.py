"""Hours of demand in whole buckets; what was not seen stays unknown."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tandem_operator.core.memory import Memory
from tandem_operator.core.objective.promise import Promise
from tandem_operator.core.observe.arrivals import Arrivals, merge
from tandem_operator.core.observe.demand_history import BUCKET_S, KEPT_S, UNKNOWN, DemandHistory
from tandem_operator.core.role import Role
from tandem_operator.workloads.stored_memory import memory_from_json, memory_to_json
from tests.unit.core.scene import NOW_S, arrival, report

Rate = Callable[[int], int]
STARTED_S = NOW_S - 5000.0
NEVER: DemandHistory = DemandHistory()


def steady(_second: int) -> int:
    return 3


def seen(
    at_s: float, rate: Rate = steady, *, expected: int = 1, started_s: float = STARTED_S
) -> Arrivals:
    """Return the arrivals as routers tell them `at_s` seconds after the scene begins."""
    end_s = int(NOW_S + at_s)
    rows = [arrival(second, rate(second)) for second in range(end_s - 1200, end_s)]
    told = report(now_s=NOW_S + at_s, arrivals=rows, started_s=started_s)
    return merge([told], expected=expected)


def kept(*looks_s: float, rate: Rate = steady) -> DemandHistory:
    history = NEVER
    for at_s in (0, *looks_s):
        history = history.close(seen(at_s, rate))
    return history


def test_a_bucket_is_closed_when_it_is_over() -> None:
    history = kept(BUCKET_S - 1)

    assert len(history) == 0
    assert len(history.close(seen(BUCKET_S))) == 1


def test_a_closed_bucket_holds_its_requests_tokens_and_peak() -> None:
    burst = int(NOW_S) + 7

    history = kept(20, rate=lambda second: 30 if second == burst else 2)

    assert history.requests == (68,)
    assert history.prompt_tokens == (6800,)
    assert history.peaks == (38,)


@pytest.mark.parametrize("at", [0, 4, 5, 14, 15, 19])
def test_a_peak_is_seen_wherever_in_a_bucket_it_is(at: int) -> None:
    history = kept(20, rate=lambda second: 30 if second == int(NOW_S) + at else 0)

    assert history.peaks == (30,)


def test_looks_at_any_time_make_the_same_buckets() -> None:
    assert kept(*range(5, 201, 5)) == kept(200) == kept(*range(0, 200, 7), 200)


def test_a_bucket_of_which_a_router_is_missing_is_unknown() -> None:
    history = kept(20).close(seen(40, expected=2)).close(seen(60))

    assert history.requests == (60, UNKNOWN, 60)


def test_what_came_before_the_routers_began_is_unknown() -> None:
    history = kept(20)

    history = history.close(seen(100, started_s=NOW_S + 50))

    assert history.requests == (60, UNKNOWN, UNKNOWN, 60, 60)


def test_hours_away_that_no_router_remembers_stay_holes() -> None:
    history = kept(20).close(seen(3600))

    known = 1200 // BUCKET_S
    assert len(history) == 3600 // BUCKET_S
    assert history.requests[1:-known] == (UNKNOWN,) * (len(history) - 1 - known)
    assert UNKNOWN not in history.requests[-known:]


def test_no_tokens_are_told_of_a_bucket_whose_prompts_are_forgotten() -> None:
    history = kept(20).close(seen(1000))

    for requests, tokens in zip(history.requests, history.prompt_tokens, strict=True):
        assert tokens in (UNKNOWN, 100 * requests)


def test_no_more_than_four_hours_are_kept() -> None:
    history = kept(*range(0, KEPT_S + 3600, 600))

    assert len(history) == KEPT_S // BUCKET_S
    assert {len(column) for column in history.wants.values()} == {len(history)}
    assert len(history.prompt_tokens) == len(history.peaks) == len(history)


def test_a_clock_set_back_a_little_adds_nothing_until_it_is_past() -> None:
    history = kept(100)

    assert history.close(seen(40)) == history
    assert len(history.close(seen(40)).close(seen(120))) == 6


def test_a_clock_set_back_by_half_an_hour_keeps_what_came_and_goes_on() -> None:
    history = kept(100)

    set_back = history.close(seen(-1800.0, started_s=NOW_S - 3000.0))
    later = set_back.close(seen(-1700.0, started_s=NOW_S - 3000.0))

    assert set_back.requests == history.requests
    assert len(later) == len(history) + 5


def test_a_clock_set_back_by_a_day_begins_anew() -> None:
    history = kept(100).close(seen(-86400.0, started_s=NOW_S - 90000.0))

    assert len(history) == 0
    assert history.end_s == NOW_S - 86400


def test_nothing_begins_before_a_router_told_anything() -> None:
    assert NEVER.close(merge([], expected=1)) == NEVER


def test_the_largest_want_of_a_bucket_is_kept() -> None:
    history = kept(0)
    for count in (2, 5, 3):
        history = history.want({Role.PREFILL: count, Role.DECODE: 1})

    history = history.close(seen(20))

    assert history.wants == {Role.PREFILL: (5,), Role.DECODE: (1,)}
    assert history.open_wants == {}


def test_a_bucket_without_a_forecast_has_unknown_wants() -> None:
    assert kept(20).wants == {Role.PREFILL: (UNKNOWN,), Role.DECODE: (UNKNOWN,)}


@pytest.mark.parametrize("looks_s", [(), (20,), (20, 600, 4000)])
def test_a_restart_loses_nothing_of_it(looks_s: tuple[float, ...]) -> None:
    history = kept(*looks_s).want({Role.PREFILL: 2, Role.DECODE: 1})

    stored = memory_to_json(Memory(promise=Promise(history=history)))

    assert memory_from_json(stored).promise.history == history


def test_the_length_of_answers_is_kept_beside_the_requests() -> None:
    history = kept(20).close(seen(60), output_tokens=210.4)

    assert history.output_tokens == (UNKNOWN, 210, 210)


def test_a_history_of_before_there_were_lengths_goes_on_without_them() -> None:
    old = replace(kept(40), output_tokens=())

    assert old.close(seen(60), output_tokens=50.0).output_tokens == (UNKNOWN, UNKNOWN, 50)


def test_known_requests_are_those_of_a_window_apart_from_its_end_and_from_holes() -> None:
    history = DemandHistory(end_s=0, requests=(1, 2, UNKNOWN, 4, 5))

    assert history.known_requests(80) == [2, 4, 5]
    assert history.known_requests(80, without=1) == [2, 4]
    assert history.known_requests(80, without=9) == []
