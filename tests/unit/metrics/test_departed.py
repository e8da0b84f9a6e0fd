from dataclasses import replace

from tandem_operator.core.arrivals import merge
from tandem_operator.metrics.departed import Departed
from tandem_operator.metrics.source import RouterTarget, Targets
from tests.unit.core.scene import NOW_S, arrival, leg, report

BUSY = {"queued_requests": 3, "queued_prompt_tokens": 900, "prefill_requests": 2}


def targets(*pods):
    return Targets("ns", "tiny", (), tuple(RouterTarget(pod, "10.0.0.1") for pod in pods))


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
    busy = replace(told("b", 5, legs=[leg("p-1")]), **BUSY)
    departed.add(targets("a", "b"), (told("a"), busy), now_s=NOW_S)

    found = departed.add(targets("a"), (told("a"),), now_s=NOW_S + 5)

    gone = found[1]
    assert (gone.router, gone.ended, gone.sampled_s) == ("b", True, NOW_S + 5)
    assert (gone.queued_requests, gone.queued_prompt_tokens, gone.prefill_requests) == (0, 0, 0)
    assert gone.legs == ()


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
