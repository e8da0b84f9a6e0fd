from tandem_operator.core.arrivals import merge, outcomes
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
