"""The simulator's queue and the router's make the same choices of the same requests."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_operator.sim.flight import Flight
from tandem_operator.sim.router_queue import Order, Prospect, RouterQueue
from tandem_operator.sim.trace import TraceRequest
from tandem_routing import deadline_queue
from tandem_routing.deadline_queue import RECONSIDERED_EVERY_S, DeadlineQueue, Expected

SECONDS_PER_TOKEN = 0.001
REST_S = 0.02


@dataclass(eq=False)
class Waiter:
    number: int
    deadline_s: float
    tokens: int
    split: bool = True
    settled: bool = False

    def expects(self) -> Expected:
        return Expected(service_s=self.tokens * SECONDS_PER_TOKEN, rest_s=REST_S)


looks = st.lists(
    st.tuples(
        st.floats(0.0, 1.5, allow_nan=False),
        st.lists(st.tuples(st.integers(1, 800), st.floats(0.0, 3.0, allow_nan=False)), max_size=4),
        st.floats(0.0, 1.0, allow_nan=False),
        st.integers(1, 3),
        st.booleans(),
    ),
    min_size=1,
    max_size=20,
)


@settings(deadline=None)
@given(looks, st.booleans())
def test_the_simulator_puts_the_same_requests_first_as_the_router(
    events: list[tuple[float, list[tuple[int, float]], float, int, bool]], elsewhere: bool
) -> None:
    now_s, free_s, pods, number = 0.0, 0.0, 1, 0

    def prospect(at_s: float) -> Prospect:
        return Prospect(at_s + free_s, pods=pods, rest_s=REST_S)

    simulated = RouterQueue(
        Order.DEADLINE,
        service_s=lambda each: each.request.prompt_tokens * SECONDS_PER_TOKEN,
        prospect=prospect,
        elsewhere=elsewhere,
    )
    live: DeadlineQueue[Waiter] = DeadlineQueue()
    waiters: dict[int, Waiter] = {}
    flights: dict[int, Flight] = {}
    asked_s, known_pods = 0.0, 0
    for after_s, arrivals, free_s, pods, sends in events:
        now_s += after_s
        for tokens, slack_s in arrivals:
            due_s = now_s + slack_s
            waiters[number] = Waiter(number, due_s, tokens)
            flights[number] = Flight(TraceRequest(now_s, tokens, 10), number, due_s)
            live.add(waiters[number])
            simulated.add(flights[number])
            number += 1
        if pods != known_pods or now_s >= asked_s + RECONSIDERED_EVERY_S:
            known_pods, asked_s = pods, now_s
            live.reconsider(now_s)

        found = live.next(
            deadline_queue.Prospect(now_s + free_s, pods, now_s if elsewhere else None)
        )
        first, excess = simulated.sort(now_s)

        expected = None if found.first is None else found.first.waiter.number
        assert (None if first is None else first.number) == expected
        assert [each.number for each in excess] == [t.waiter.number for t in found.excess]
        if first is not None:
            assert simulated.is_hopeless(first) == found.late
            if sends:
                simulated.take(first)
                live.remove(waiters[first.number])


def test_a_late_request_is_asked_again_after_a_second() -> None:
    free_s = 1.2
    queue = RouterQueue(
        Order.DEADLINE,
        service_s=lambda each: each.request.prompt_tokens * SECONDS_PER_TOKEN,
        prospect=lambda now_s: Prospect(now_s + free_s, pods=1, rest_s=0.0),
    )
    request = Flight(TraceRequest(0.0, 100, 10), number=0, deadline_s=2.4)
    queue.add(request)
    queue.sort(1.25)
    assert queue.is_hopeless(request)

    free_s = 0.0
    queue.sort(1.5)
    assert queue.is_hopeless(request)
    queue.sort(1.25 + RECONSIDERED_EVERY_S)
    assert not queue.is_hopeless(request)
