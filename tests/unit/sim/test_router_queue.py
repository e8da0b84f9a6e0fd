"""The next request of the queue: one that can be on time, so that as many as possible are."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.routing.router_queue import Order, RouterQueue
from tandem_operator.sim.traces.trace import TraceRequest
from tandem_routing.deadline_queue import RECONSIDERED_EVERY_S, Expected, Prospect

# One second of prefill per thousand tokens.
SECONDS_PER_TOKEN = 0.001


def flight(number: int, *, tokens: int = 100, deadline_s: float = 1.0) -> SimulatedFlight:
    return SimulatedFlight(TraceRequest(0.0, tokens, 10), number=number, deadline_s=deadline_s)


def expected(each: SimulatedFlight) -> Expected:
    return Expected(service_s=each.request.prompt_tokens * SECONDS_PER_TOKEN)


def make_queue(order: Order, *flights: SimulatedFlight) -> RouterQueue:
    queue = RouterQueue(order, expected=expected)
    for each in flights:
        queue.add(each)
    return queue


Looked = tuple[SimulatedFlight | None, list[SimulatedFlight], bool]


def look(
    queue: RouterQueue,
    now_s: float = 0.0,
    *,
    free_s: float = 0.0,
    pods: int = 1,
    elsewhere: bool = False,
) -> Looked:
    """Return the next request, those that would be late, and whether the next is late already."""
    prospect = Prospect(max(now_s, free_s), pods, now_s if elsewhere else None)
    found = queue.next(prospect, now_s)
    first = None if found.first is None else found.first.waiter.flight
    return first, [turn.waiter.flight for turn in found.excess], found.late


def emptied(queue: RouterQueue, now_s: float = 0.0, **around: Any) -> list[int]:
    order = []
    while len(queue):
        first, _, _ = look(queue, now_s, **around)
        assert first is not None
        queue.take(first)
        order.append(first.number)
    return order


def numbers(flights: list[SimulatedFlight]) -> list[int]:
    return [each.number for each in flights]


def test_first_come_first_served_looks_at_no_deadline() -> None:
    queue = make_queue(Order.FIFO, flight(0, deadline_s=9.0), flight(1, deadline_s=0.01))

    assert emptied(queue) == [0, 1]


def test_the_most_urgent_goes_first() -> None:
    queue = make_queue(Order.DEADLINE, flight(0, deadline_s=3.0), flight(1, deadline_s=2.0))

    assert emptied(queue) == [1, 0]


@pytest.mark.parametrize("order", [Order.DEADLINE, Order.GOODPUT])
def test_a_request_that_can_no_longer_be_on_time_waits_behind_those_that_can(order: Order) -> None:
    late, fresh = flight(0, tokens=500, deadline_s=0.4), flight(1, deadline_s=0.9)
    queue = make_queue(order, late, fresh)

    assert look(queue) == (fresh, [], False)
    queue.take(fresh)
    assert look(queue) == (late, [], True)


def test_a_busy_fleet_makes_a_request_hopeless_that_an_idle_one_would_serve_in_time() -> None:
    urgent, patient = flight(0, deadline_s=0.4), flight(1, deadline_s=2.0)

    assert look(make_queue(Order.DEADLINE, urgent, patient))[0] is urgent
    assert look(make_queue(Order.DEADLINE, urgent, patient), free_s=0.5)[0] is patient


def test_a_request_is_not_hopeless_that_a_decode_pod_would_serve_in_time() -> None:
    urgent = flight(0, deadline_s=0.4)
    queue = make_queue(Order.DEADLINE, urgent)

    assert look(queue, free_s=0.5, elsewhere=True)[:2] == (None, [urgent])
    assert look(queue, 0.35, free_s=0.5, elsewhere=True) == (urgent, [], True)


def test_a_late_request_is_asked_again_after_a_second() -> None:
    request = flight(0, deadline_s=2.4)
    queue = make_queue(Order.DEADLINE, request)
    queue.reconsider((), 1.25)
    assert look(queue, 1.25, free_s=2.4) == (request, [], True)

    queue.reconsider((), 1.5)
    assert look(queue, 1.5) == (request, [], True)
    queue.reconsider((), 1.25 + RECONSIDERED_EVERY_S)
    assert look(queue, 1.25 + RECONSIDERED_EVERY_S) == (request, [], False)


def test_in_an_overload_the_longest_prompt_gives_way_where_goodput_decides() -> None:
    long, short = flight(0, tokens=900, deadline_s=1.0), flight(1, tokens=200, deadline_s=1.05)
    other = flight(2, tokens=200, deadline_s=1.06)

    by_deadline = look(make_queue(Order.DEADLINE, long, short, other), elsewhere=True)
    by_goodput = look(make_queue(Order.GOODPUT, long, short, other))

    assert by_deadline[0] is long
    assert numbers(by_deadline[1]) == [1, 2]
    assert by_goodput[0] is short
    assert numbers(by_goodput[1]) == [0]


def test_two_pods_do_in_time_what_one_cannot() -> None:
    flights = [flight(n, tokens=400) for n in range(4)]

    _, excess_of_one, _ = look(make_queue(Order.DEADLINE, *flights), elsewhere=True)
    _, excess_of_two, _ = look(make_queue(Order.DEADLINE, *flights), pods=2, elsewhere=True)

    assert len(excess_of_one) == 2
    assert excess_of_two == []


def test_first_come_first_served_gives_away_only_a_newcomer_that_would_be_late() -> None:
    flights = [flight(n, tokens=300, deadline_s=1.0) for n in range(4)]
    queue = make_queue(Order.FIFO, *flights[:3])

    assert look(queue)[1] == []
    queue.add(flights[3])
    assert look(queue)[1] == [flights[3]]
    queue.take(flights[3])
    assert emptied(queue) == [0, 1, 2]


@pytest.mark.parametrize("order", Order)
def test_a_request_may_leave_from_wherever_it_stands(order: Order) -> None:
    flights = [flight(n) for n in range(3)]
    queue = make_queue(order, *flights)

    queue.take(flights[1])

    assert emptied(queue) == [0, 2]


requests = st.lists(
    st.tuples(st.integers(1, 1000), st.floats(0.0, 3.0, allow_nan=False)), min_size=1, max_size=12
)


@settings(deadline=None)
@given(requests, st.sampled_from(Order), st.integers(1, 3), st.floats(0.0, 2.0))
def test_every_request_goes_once_and_the_tokens_add_up(
    made: list[tuple[int, float]], order: Order, pods: int, now_s: float
) -> None:
    flights = [flight(n, tokens=t, deadline_s=d) for n, (t, d) in enumerate(made)]
    queue = make_queue(order, *flights)

    assert queue.guaranteed_prompt_tokens == sum(tokens for tokens, _ in made)
    assert sorted(emptied(queue, now_s, pods=pods)) == list(range(len(made)))
    assert queue.guaranteed_prompt_tokens == 0


@settings(deadline=None)
@given(requests)
def test_giving_way_never_serves_fewer_in_time_than_deadline_order(
    made: list[tuple[int, float]],
) -> None:
    def in_time(order: Order) -> int:
        flights = [flight(n, tokens=t, deadline_s=d) for n, (t, d) in enumerate(made)]
        queue, now_s, good = make_queue(order, *flights), 0.0, 0
        while len(queue):
            first, _, _ = look(queue, now_s)
            assert first is not None
            queue.take(first)
            now_s += first.request.prompt_tokens * SECONDS_PER_TOKEN
            good += now_s <= first.deadline_s + 1e-9
        return good

    assert in_time(Order.GOODPUT) >= in_time(Order.DEADLINE)


def test_a_request_that_waited_for_a_wake_stays_the_same_one_to_the_router() -> None:
    queue = RouterQueue(Order.DEADLINE, expected=expected)
    woken = flight(1, deadline_s=61.0)
    woken.given_s = 60.0
    waiter = queue.add(woken)

    queue.woken(30.0)

    found = queue.next(Prospect(30.0, 1), 30.0).first
    assert found is not None
    assert found.waiter is waiter
    assert (waiter.entered_s, waiter.deadline_s) == (30.0, 31.0)
