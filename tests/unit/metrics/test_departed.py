from dataclasses import replace

import pytest

from tandem_operator.core.observation import ClassWindow, TenantWindow
from tandem_operator.core.observe.arrivals import HISTORY_S, merge
from tandem_operator.metrics.departed import Departed
from tandem_operator.metrics.source import RouterTarget, Targets
from tests.unit.core.scene import NOW_S, arrival, leg, report

BUSY = {"queued_requests": 3, "queued_prompt_tokens": 900, "prefill_requests": 2}


def targets(*pods):
    routers = [
        pod if isinstance(pod, RouterTarget) else RouterTarget(pod, "10.0.0.1") for pod in pods
    ]
    return Targets("ns", "tiny", (), tuple(routers))


def opened(pod, ago_s):
    return RouterTarget(pod, "10.0.0.1", opened_s=NOW_S - ago_s)


def closed(pod, ago_s):
    return RouterTarget(pod, "10.0.0.1", closed_s=NOW_S - ago_s)


def told(pod, *seconds_ago, now_s=NOW_S, **more):
    arrivals = [arrival(NOW_S - ago_s, 2) for ago_s in seconds_ago]
    return report(router=pod, now_s=now_s, arrivals=arrivals, **more)


def test_the_arrivals_of_a_router_that_is_gone_stay_in_the_history():
    departed = Departed()
    departed.add(targets("a", "b"), (told("a", 5), told("b", 5)), now_s=NOW_S)

    found = departed.add(targets("a"), (told("a", 5, now_s=NOW_S + 5),), now_s=NOW_S + 5)

    merged = merge(found, expected=1)
    assert (sum(merged.counts), merged.complete) == (4.0, True)


def test_nothing_waits_in_a_router_that_is_gone():
    departed = Departed()
    batch = ClassWindow("batch", 120.0, 9, 9, 90, 90, queued_requests=3)
    acme = TenantWindow("acme", 120.0, 9, 9, 0, 0, 90)
    told_b = told("b", 5, legs=[leg("p-1")])
    busy = replace(told_b, **BUSY, classes=(batch,), tenants=(acme,))
    departed.add(targets("a", "b"), (told("a"), busy), now_s=NOW_S)

    found = departed.add(targets("a"), (told("a"),), now_s=NOW_S + 5)

    gone = found[1]
    assert (gone.router, gone.ended, gone.sampled_s) == ("b", True, NOW_S + 5)
    assert (gone.queued_requests, gone.queued_prompt_tokens, gone.prefill_requests) == (0, 0, 0)
    assert gone.legs == ()
    assert (gone.classes, gone.tenants) == ((), ())


def test_a_router_that_merely_does_not_answer_is_missing_and_not_gone():
    departed = Departed()
    departed.add(targets("a", "b"), (told("a", 5), told("b", 5)), now_s=NOW_S)

    found = departed.add(targets("a", "b"), (told("a", 5),), now_s=NOW_S + 5)

    assert [each.router for each in found] == ["a"]
    assert not merge(found, expected=2).complete


def test_a_router_that_is_back_speaks_for_itself():
    departed = Departed()
    departed.add(targets("a", "b"), (told("a", 5), told("b", 5)), now_s=NOW_S)
    departed.add(targets("a"), (told("a", 5),), now_s=NOW_S + 5)

    found = departed.add(targets("a", "b"), (told("a"), told("b")), now_s=NOW_S + 10)

    assert [(each.router, each.ended) for each in found] == [("a", False), ("b", False)]


def test_what_is_older_than_the_history_is_forgotten():
    departed = Departed()
    departed.add(targets("a", "b"), (told("a", 5), told("b", 5)), now_s=NOW_S)

    assert departed.add(targets("a"), (), now_s=NOW_S + 1201) == ()


def test_routers_of_a_pool_that_is_gone_are_forgotten():
    departed = Departed()
    departed.add(targets("a"), (told("a", 5),), now_s=NOW_S)

    departed.forget(namespace="ns", pool="tiny")

    assert departed.add(targets(), (), now_s=NOW_S + 5) == ()


def a_rollout(departed):
    """Replace router `a`, which took clients for 500 s, by `b`, which opened 20 s ago."""
    a, b = told("a", 300, started_s=NOW_S - 500), told("b", 5, started_s=NOW_S - 25)
    departed.add(targets(opened("a", 495)), (a,), now_s=NOW_S - 30)
    departed.add(targets(closed("a", 20), opened("b", 20)), (a, b), now_s=NOW_S - 15)
    return b


def test_a_rollout_of_the_routers_forgets_no_arrival():
    departed = Departed()
    b = a_rollout(departed)

    merged = merge(departed.add(targets(opened("b", 20)), (b,), now_s=NOW_S), expected=1)

    assert (merged.known_s, sum(merged.counts), merged.complete) == (500, 4.0, True)


def test_a_router_that_is_added_shortens_no_history():
    departed = Departed()
    a = told("a", 300, started_s=NOW_S - 500)
    departed.add(targets(opened("a", 495)), (a,), now_s=NOW_S - 30)

    both = (a, told("b", 5, started_s=NOW_S - 25))
    found = departed.add(targets(opened("a", 495), opened("b", 20)), both, now_s=NOW_S)

    assert merge(found, expected=2).known_s == 500


def test_what_went_before_the_first_look_may_be_missing():
    both = (told("a", 300, started_s=NOW_S - 500), told("b", 5, started_s=NOW_S - 25))

    found = Departed().add(targets(opened("a", 495), opened("b", 20)), both, now_s=NOW_S)

    assert merge(found, expected=2).known_s == 25


def test_nor_is_it_there_where_one_of_the_routers_answers_later():
    departed = Departed()
    both = (told("a", 300, started_s=NOW_S - 500), told("b", 5, started_s=NOW_S - 25))
    routers = targets(opened("a", 495), opened("b", 20))
    departed.add(routers, both[:1], now_s=NOW_S - 5)

    assert merge(departed.add(routers, both, now_s=NOW_S), expected=2).known_s == 25


def vanished(departed, *, silent_s):
    """Return router `b` is found gone after so much silence; `a` goes on."""
    both = (told("a", 300, started_s=NOW_S - 500), told("b", 300, started_s=NOW_S - 500))
    departed.add(targets(opened("a", 495), opened("b", 495)), both, now_s=NOW_S)
    return looked_at(departed, NOW_S + silent_s)


def looked_at(departed, now_s):
    a = told("a", 300, now_s=now_s, started_s=NOW_S - 500)
    return merge(departed.add(targets(opened("a", 495)), (a,), now_s=now_s), expected=1)


def test_a_router_that_vanishes_makes_what_came_lately_a_lower_bound_for_a_while():
    departed = Departed()

    found = [vanished(departed, silent_s=5)]
    found += [looked_at(departed, NOW_S + 5 + later_s) for later_s in (25, 30)]

    assert [(each.known_s, sum(each.counts), each.complete) for each in found] == [
        (505, 4.0, False),
        (530, 4.0, False),
        (535, 4.0, True),
    ]


def test_a_router_that_vanishes_after_a_long_silence_leaves_a_hole_and_the_history_begins_anew():
    departed = Departed()

    assert vanished(departed, silent_s=20).known_s == 0
    assert looked_at(departed, NOW_S + 60).known_s == 40


def test_so_does_one_that_took_clients_for_long_and_never_answered():
    departed = Departed()
    a = told("a", 300, started_s=NOW_S - 500)
    for later_s in (0, 20):
        departed.add(targets(opened("a", 495), opened("b", 2)), (a,), now_s=NOW_S + later_s)

    assert looked_at(departed, NOW_S + 25).known_s == 0


def test_one_that_took_clients_for_a_moment_leaves_no_hole():
    departed = Departed()
    a = told("a", 300, started_s=NOW_S - 500)
    departed.add(targets(opened("a", 495), opened("b", 2)), (a,), now_s=NOW_S)

    assert looked_at(departed, NOW_S + 5).known_s == 505


def test_a_router_whose_container_starts_again_leaves_what_it_told():
    departed = Departed()
    both = (told("a", 300, started_s=NOW_S - 500), told("b", 300, started_s=NOW_S - 500))
    departed.add(targets(opened("a", 495), opened("b", 495)), both, now_s=NOW_S - 12)

    again = (both[0], told("b", 5, started_s=NOW_S - 10))
    for _ in range(2):
        found = departed.add(targets(opened("a", 495), opened("b", 8)), again, now_s=NOW_S)

    merged = merge(found, expected=2)
    assert (merged.known_s, sum(merged.counts), merged.complete) == (500, 6.0, False)


def test_arrivals_are_unknown_while_no_router_takes_clients():
    departed = Departed()
    a, b = told("a", 300, started_s=NOW_S - 500), told("b", 5, started_s=NOW_S - 25)
    departed.add(targets(opened("a", 495)), (a,), now_s=NOW_S - 60)
    departed.add(targets(closed("a", 50)), (a,), now_s=NOW_S - 45)

    assert (
        merge(departed.add(targets(opened("b", 20)), (b,), now_s=NOW_S), expected=1).known_s == 25
    )


def test_a_router_that_stops_being_ready_for_a_while_loses_nothing():
    departed = Departed()
    a, b = told("a", 300, started_s=NOW_S - 500), told("b", 300, started_s=NOW_S - 500)
    for found in (opened("b", 495), closed("b", 20), opened("b", 5)):
        merged = merge(
            departed.add(targets(opened("a", 495), found), (a, b), now_s=NOW_S), expected=2
        )

    assert merged.known_s == 500


def test_a_rollout_between_two_looks_forgets_no_arrival_either():
    departed = Departed()
    a, b = told("a", 300, started_s=NOW_S - 500), told("b", 5, started_s=NOW_S - 25)
    departed.add(targets(opened("a", 495)), (a,), now_s=NOW_S - 30)
    departed.add(targets(closed("a", 20)), (a,), now_s=NOW_S - 20)
    departed.add(targets(), (), now_s=NOW_S - 10)

    merged = merge(departed.add(targets(opened("b", 20.6)), (b,), now_s=NOW_S), expected=1)

    assert (merged.known_s, merged.complete) == (500, True)


@pytest.mark.parametrize(("between_s", "known_s"), [(0.9, 500), (1.1, 25)])
def test_times_of_whole_seconds_leave_a_second_between_one_that_closes_and_one_that_opens(
    between_s, known_s
):
    departed = Departed()
    a, b = told("a", 300, started_s=NOW_S - 500), told("b", 5, started_s=NOW_S - 25)
    departed.add(targets(opened("a", 495)), (a,), now_s=NOW_S - 30)

    routers = targets(closed("a", 20 + between_s), opened("b", 20))
    found = departed.add(routers, (a, b), now_s=NOW_S)

    assert merge(found, expected=2).known_s == known_s


def test_a_router_does_not_join_routers_that_open_later():
    departed = Departed()
    departed.add(targets(), (), now_s=NOW_S - 60)
    first, second = told("a", 5, started_s=NOW_S - 30), told("b", 5, started_s=NOW_S - 40)

    found = departed.add(targets(opened("b", 15), opened("a", 25)), (second, first), now_s=NOW_S)

    assert merge(found, expected=2).known_s == 30


def test_a_router_that_was_last_heard_before_it_closed_is_lost():
    departed = Departed()
    a, b = (told(p, now_s=NOW_S - 10, started_s=NOW_S - 500) for p in ("a", "b"))
    departed.add(targets(opened("a", 495), opened("b", 495)), (a, b), now_s=NOW_S - 10)
    departed.add(targets(opened("a", 495), closed("b", 8)), (a,), now_s=NOW_S - 5)

    assert not looked_at(departed, NOW_S).complete


def test_others_join_a_router_that_was_out_of_sight_for_a_look():
    departed = Departed()
    a, b = told("a", 300, now_s=NOW_S - 10, started_s=NOW_S - 500), told("b", started_s=NOW_S - 6)
    departed.add(targets(opened("a", 495)), (a,), now_s=NOW_S - 10)
    departed.add(targets(), (), now_s=NOW_S - 5)

    back = (told("a", 300, started_s=NOW_S - 500), b)
    found = departed.add(targets(opened("a", 495), opened("b", 3)), back, now_s=NOW_S)

    assert merge(found, expected=2).known_s == 500


def test_routers_join_others_after_the_clock_was_set_back():
    departed = Departed()
    a = told("a", 300, started_s=NOW_S - 500)
    departed.add(targets(opened("a", 495)), (a,), now_s=NOW_S + 3600)
    departed.add(targets(opened("a", 495)), (a,), now_s=NOW_S - 60)

    both = (a, told("b", 5, started_s=NOW_S - 25))
    found = departed.add(targets(opened("a", 495), opened("b", 20)), both, now_s=NOW_S)

    assert merge(found, expected=2).known_s == 500


def test_a_hole_cuts_the_history_of_routers_that_joined_others_too():
    departed, routers = Departed(), (opened("b", -5), opened("c", -5))
    departed.add(targets(opened("a", 495)), (told("a", started_s=NOW_S - 500),), now_s=NOW_S)
    later_s = NOW_S + 2000
    for at_s, pods in ((NOW_S + 10, "abc"), (NOW_S + 20, "bc"), (later_s, "bc")):
        seen = targets(*([closed("a", -8)] if "a" in pods else []), *routers)
        starts = {"a": NOW_S - 500, "b": NOW_S, "c": NOW_S}
        answers = [told(pod, now_s=at_s, started_s=starts[pod]) for pod in pods]
        found = departed.add(seen, answers, now_s=at_s)
    assert merge(found, expected=2).known_s == HISTORY_S

    alone = told("b", now_s=later_s + 20, started_s=NOW_S)
    found = departed.add(targets(routers[0]), (alone,), now_s=later_s + 20)

    assert merge(found, expected=1).known_s == 0


def test_a_router_that_is_out_of_sight_for_a_look_does_not_join_itself():
    departed = Departed()
    departed.add(targets(), (), now_s=NOW_S - 60)
    alone, routers = told("a", 5, started_s=NOW_S - 30), targets(opened("a", 25))
    departed.add(routers, (alone,), now_s=NOW_S - 10)
    departed.add(targets(), (), now_s=NOW_S - 5)

    found = departed.add(routers, (alone,), now_s=NOW_S)

    assert [each.ended for each in found] == [False]
    assert merge(found, expected=1).known_s == 30


def test_a_hole_is_over_when_the_clock_is_set_back():
    departed = Departed()
    vanished(departed, silent_s=20)

    looked_at(departed, NOW_S - 50)

    assert looked_at(departed, NOW_S).known_s == 50
