import pytest

from tandem_operator.core.observe.arrivals import HISTORY_S, Arrivals, merge, outcomes
from tests.unit.core.scene import NOW_S, arrival, ended, report


def test_seconds_listed_nowhere_after_the_start_saw_nothing() -> None:
    merged = merge([report(started_s=NOW_S - 10, arrivals=[arrival(NOW_S - 3, 2)])], expected=1)

    assert merged.known_s == 10
    assert sum(merged.counts) == 2


def test_seconds_before_the_youngest_router_started_are_unknown() -> None:
    old = report(started_s=NOW_S - 100, arrivals=[arrival(NOW_S - 50, 5)])
    young = report(router="router-2", started_s=NOW_S - 20, arrivals=[arrival(NOW_S - 5, 1)])

    merged = merge([old, young], expected=2)

    assert merged.known_s == 20
    assert sum(merged.counts) == 1


def _since_start(*counts: int, before: int = 0) -> Arrivals:
    """Return the arrivals at a router that started so long ago.

    A `before` makes the history longer than the kept one.
    """
    start_s = NOW_S - len(counts)
    rows = [arrival(start_s + i, count, 100 * count) for i, count in enumerate(counts) if count]
    return merge([report(started_s=start_s - before, arrivals=rows)], expected=1)


STEADY = (18, 22, 20, 17, 25, 19, 21, 20, 16, 24, 20, 23, 18, 20, 22, 19)


@pytest.mark.parametrize("waited", [(90,), (0, 0, 0, 90), (90, 70, 60)])
def test_requests_that_waited_for_a_router_are_no_burst(waited: tuple[int, ...]) -> None:
    merged = _since_start(*waited, *STEADY, *STEADY)

    assert merged.counts == (*STEADY, *STEADY)
    assert min(merged.seconds) == merged.end_s - len(merged.counts)


@pytest.mark.parametrize(
    "first",
    [(), (35,), (0, 0, 0), (*STEADY, 90), (*([0] * 60), 90)],
    ids=["steady", "chance", "quiet", "a burst later", "a burst on an idle pool"],
)
def test_any_other_traffic_since_the_start_counts(first: tuple[int, ...]) -> None:
    assert _since_start(*first, *STEADY).counts == (*first, *STEADY)


def test_a_crowd_that_goes_on_coming_is_traffic() -> None:
    crowd = (400, 300, 200, 150, 120, 110, 105, 100)

    assert _since_start(*crowd, *STEADY).counts == (*crowd[5:], *STEADY)


def test_routers_that_all_joined_others_know_as_much_as_is_kept() -> None:
    joined = report(started_s=NOW_S - 100, joined=True, arrivals=[arrival(NOW_S - 5, 3)])

    assert merge([joined], expected=1).known_s == HISTORY_S


def test_a_loss_that_a_clock_set_back_has_yet_to_come_to_shows_in_no_rate() -> None:
    gone = report(router="router-2", ended=True, lost_s=NOW_S + 10)

    assert merge([report(), gone], expected=1).complete


def test_waiting_requests_are_recognised_only_after_the_seconds_that_follow() -> None:
    assert _since_start(90, *STEADY[:14]).known_s == 15
    assert _since_start(90, *STEADY[:15]).known_s == 15


def test_a_burst_at_the_edge_of_what_is_kept_is_a_burst() -> None:
    merged = _since_start(90, *([20] * (HISTORY_S - 1)), before=60)

    assert merged.counts[0] == 90


def test_requests_of_all_routers_add_up() -> None:
    a = report(arrivals=[arrival(NOW_S - 5, 2, 100)])
    b = report(router="router-2", arrivals=[arrival(NOW_S - 5, 3, 900)])

    merged = merge([a, b], expected=2)

    assert merged.counts[-5] == 5
    groups = merged.seconds[int(NOW_S - 5)].groups
    assert [(g.requests, g.prompt_tokens) for g in groups] == [(2, 100), (3, 900)]


def test_a_missing_router_makes_the_counts_a_lower_bound() -> None:
    assert not merge([report()], expected=2).complete
    assert merge([report()], expected=1).complete


def test_while_clients_are_turned_away_the_counts_are_a_lower_bound() -> None:
    assert not merge([report()], expected=1, turned_away=True).complete


def test_a_router_that_ended_answers_for_no_other() -> None:
    gone = report(router="router-2", arrivals=[arrival(NOW_S - 5, 3)], ended=True)

    merged = merge([report(), gone], expected=2)

    assert (sum(merged.counts), merged.complete) == (3.0, False)
    assert merge([report(), gone], expected=1).complete


def test_routers_that_ended_alone_know_nothing() -> None:
    assert merge([report(ended=True)], expected=1) == merge([], expected=1)


def test_no_report_at_all_knows_nothing() -> None:
    merged = merge([], expected=1)

    assert merged.rate_rps(30) is None
    assert not merged.complete


def test_the_second_that_is_not_over_does_not_count() -> None:
    merged = merge([report(now_s=NOW_S + 0.5, arrivals=[arrival(NOW_S, 9)])], expected=1)

    assert sum(merged.counts) == 0


def test_outcomes_cover_the_window_only_and_add_blame() -> None:
    rows = [
        ended(NOW_S - 200, 7),
        ended(NOW_S - 5, 4, good=3, blame={"prefill": 1}),
        ended(NOW_S - 4, 2, good=1, blame={"prefill": 1}),
    ]

    minute = outcomes([report(finished=rows)], window_s=60)

    assert (minute.finished, minute.good, minute.blame) == (6, 4, {"prefill": 2})
    assert minute.attainment == 4 / 6


def test_attainment_of_a_window_that_saw_nothing_is_unknown() -> None:
    assert outcomes([report()], window_s=60).attainment is None


def test_requests_that_wait_and_are_late_count_at_once_where_they_wait() -> None:
    waiting = report(
        overdue_requests=3,
        held_overdue_requests=1,
        finished=[ended(NOW_S - 5, 4, good=3, late_ttft=1, blame={"decode_admission": 1})],
    )

    minute = outcomes([waiting], window_s=60)

    assert minute.blame == {"decode_admission": 2, "router_queue": 2}
    assert (minute.finished, minute.good, minute.late_ttft, minute.overdue) == (7, 3, 4, 3)
    assert minute.answered == 4


def test_one_request_that_waits_and_is_late_is_blamed_on_its_queue_alone() -> None:
    queued = outcomes([report(overdue_requests=1)], window_s=60)
    held = outcomes([report(overdue_requests=1, held_overdue_requests=1)], window_s=60)

    assert queued.blame == {"router_queue": 1}
    assert held.blame == {"decode_admission": 1}


def test_prompts_of_a_second_are_grouped_by_length() -> None:
    rows = [arrival(NOW_S - 2, 3, 100), arrival(NOW_S - 2, 1, 900)]

    (second,) = merge([report(arrivals=rows)], expected=1).seconds.values()

    assert [(g.requests, g.prompt_tokens) for g in second.groups] == [(3, 100), (1, 900)]
