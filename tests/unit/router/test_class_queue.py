"""What goes next where requests are of several classes."""

import pytest

from tandem_routing.best_effort import LOAD_SEEN_S, Guaranteed, Need
from tandem_routing.class_queue import ClassQueue
from tandem_routing.deadline_queue import Prospect, turn_of
from tandem_routing.outstanding import NO_LOAD, Load, Outstanding
from tandem_routing.rank import Rank
from tandem_routing.spare_queue import OVERDUE_AFTER_S, OVERDUE_SHARE
from tests.unit.router.waiter import Waiter, queue_of

CHAT = Rank.of(guaranteed=True, priority=10)
AGENT = Rank.of(guaranteed=True, priority=0)
FLEX = Rank.of(guaranteed=False, priority=10)
BATCH = Rank.of(guaranteed=False, priority=0)


def goes(queue: ClassQueue[Waiter], *, now: float = 0.0) -> str | None:
    first = queue.next(Prospect(start_s=now, pods=1), now=now).first
    return None if first is None else first.waiter.name


def test_of_two_guaranteed_classes_the_more_urgent_goes_while_both_can_be_on_time() -> None:
    assert goes(queue_of(Waiter("chat", 10.0, CHAT), Waiter("agent", 3.0, AGENT))) == "agent"


def test_a_lower_priority_waits_where_a_higher_one_would_be_late_by_it() -> None:
    urgent = Waiter("agent", 1.6, AGENT, service_s=1.5)
    assert goes(queue_of(Waiter("chat", 2.0, CHAT), urgent)) == "chat"


def test_a_request_that_can_be_on_time_goes_before_a_higher_priority_that_cannot() -> None:
    assert goes(queue_of(Waiter("chat", 0.5, CHAT), Waiter("agent", 9.0, AGENT))) == "agent"


def test_of_late_requests_the_higher_priority_goes_first() -> None:
    assert goes(queue_of(Waiter("agent", 0.1, AGENT), Waiter("chat", 0.5, CHAT))) == "chat"


def test_a_late_request_is_told_of_once_so_that_a_look_does_not_go_through_all_of_them() -> None:
    late, lost = Waiter("late", 0.5), Waiter("lost", 0.1, AGENT)
    queue = queue_of(late, Waiter("left", 0.2), lost, Waiter("agent", 9.0, AGENT))
    goes(queue)
    (left,) = [each for each in queue.newly_late() if each.name == "left"]
    queue.remove(left)
    goes(queue)
    assert list(queue.newly_late()) == []

    queue.reconsider(0.2)
    goes(queue)
    assert list(queue.newly_late()) == [late]


def test_best_effort_is_no_guaranteed_request() -> None:
    queue = queue_of(Waiter("batch", 1.0, BATCH))

    assert goes(queue) is None
    assert [waiter.name for waiter in queue.spare()] == ["batch"]
    assert len(queue) == 1


def test_best_effort_goes_by_priority_and_then_by_deadline() -> None:
    queue = queue_of(
        Waiter("later", 90.0, BATCH), Waiter("batch", 10.0, BATCH), Waiter("flex", 99.0, FLEX)
    )

    assert [waiter.name for waiter in queue.spare()] == ["flex", "batch", "later"]


def test_best_effort_is_shed_first_and_the_last_of_it_foremost() -> None:
    queue = queue_of(
        Waiter("late", 0.1),
        Waiter("flex", 1.0, FLEX),
        Waiter("a", 5.0, BATCH),
        Waiter("b", 9.0, BATCH),
    )

    last = queue.last_spare()
    assert last is not None
    assert last.name == "b"
    shed = queue.shed(0.0, now=0.0)
    assert shed is not None
    assert shed.name == "late"


def test_nobody_is_due_before_it_is_overdue() -> None:
    queue = queue_of(Waiter("batch", 300.0, BATCH))

    assert queue.due(pods=1, now=0.0) is None
    assert queue.due(pods=1, now=299.0) is None


def test_overdue_best_effort_is_due_once_its_share_pays_for_it() -> None:
    queue = queue_of(Waiter("batch", 0.0, BATCH, service_s=2.0))
    paid_s = 2.0 / (OVERDUE_SHARE * 4)

    assert queue.due(pods=4, now=OVERDUE_AFTER_S) is None
    assert queue.due(pods=4, now=OVERDUE_AFTER_S + 0.9 * paid_s) is None
    due = queue.due(pods=4, now=OVERDUE_AFTER_S + 1.01 * paid_s)
    assert due is not None
    assert due.waiter.name == "batch"


def test_a_place_that_was_taken_has_to_be_earned_again() -> None:
    first, second = Waiter("a", 0.0, BATCH), Waiter("b", 1.0, BATCH)
    queue = queue_of(first, second)
    queue.due(pods=1, now=OVERDUE_AFTER_S)
    due = queue.due(pods=1, now=OVERDUE_AFTER_S + 100.0)
    assert due is not None

    queue.took(due)
    queue.remove(due.waiter)

    assert queue.due(pods=1, now=OVERDUE_AFTER_S + 101.0) is None


def test_a_request_that_left_is_in_no_line() -> None:
    batch, chat = Waiter("batch", 1.0, BATCH), Waiter("chat", 9.0)
    queue = queue_of(batch, chat)

    for waiter in (batch, chat, batch):
        queue.remove(waiter)

    assert len(queue) == 0
    assert not queue.spares


def test_without_guaranteed_traffic_best_effort_may_have_any_pod() -> None:
    pod = Outstanding("p")
    turn = turn_of(Waiter("batch", 60.0, BATCH, service_s=1000.0))

    assert Need().leaves(turn, [pod], [pod], routers=1, now=0.0) == [pod]


def test_best_effort_leaves_the_time_that_guaranteed_requests_are_expected_to_need() -> None:
    pods = [Outstanding("p"), Outstanding("q")]
    need = Need(margin_s=1.0, work_s=1.2)

    def pods_for(service_s: float) -> int:
        turn = turn_of(Waiter("batch", 60.0, BATCH, service_s=service_s))
        return len(need.leaves(turn, pods, pods, routers=1, now=0.0))

    assert pods_for(0.7) == 2
    assert pods_for(0.9) == 0


def test_of_other_routers_the_same_is_supposed() -> None:
    pods = [Outstanding("p"), Outstanding("q")]
    turn = turn_of(Waiter("batch", 60.0, BATCH, service_s=0.7))

    assert Need(1.0, 0.3).leaves(turn, pods, pods, routers=1, now=0.0) == pods
    assert Need(1.0, 0.3).leaves(turn, pods, pods, routers=4, now=0.0) == []


def test_the_backlog_that_guaranteed_requests_had_lately_is_expected_again() -> None:
    guaranteed = Guaranteed()
    for _ in range(3):
        guaranteed.came(turn_of(Waiter("chat", 10.0)), pods=1, now=0.0)

    assert guaranteed.need(0.5, pods=1).work_s == 0.5
    assert guaranteed.need(4.0, pods=1).work_s == 3.0
    assert guaranteed.need(60.0, pods=1).work_s == 0.0


def test_the_time_given_for_a_wake_is_no_margin() -> None:
    guaranteed = Guaranteed()
    guaranteed.came(turn_of(Waiter("chat", 95.0)), pods=1, now=0.0, wake_s=90.0)

    assert guaranteed.need(0.5, pods=1).margin_s == pytest.approx(0.8 * 4.0)


def test_streams_that_guaranteed_requests_had_lately_are_kept_room_for() -> None:
    guaranteed, load = Guaranteed(), Load(tokens=100, streams=1, output_tokens=40)
    guaranteed.began(load, now=0.0)
    guaranteed.began(load, now=0.1)

    assert guaranteed.missing(1.0) == NO_LOAD
    guaranteed.ended(load)
    assert guaranteed.missing(2.0) == load
    assert guaranteed.missing(LOAD_SEEN_S + 5.0).streams == 0
