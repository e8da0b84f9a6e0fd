"""Tenants share a fleet by weight, no capacity is left over, and one alone has today's order."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tandem_routing.class_queue import ClassQueue
from tandem_routing.deadline_queue import DeadlineQueue, Prospect
from tandem_routing.tenant_shares import AHEAD_REQUESTS, NO_TENANT, Tenant
from tests.unit.router.waiter import Waiter

TENANTS = (Tenant("a"), Tenant("b", weight=2.0), Tenant("c", weight=0.5))


def waiters(*tenants: Tenant) -> st.SearchStrategy[Waiter]:
    return st.builds(
        Waiter,
        name=st.just(""),
        tenant=st.sampled_from(tenants),
        deadline_s=st.floats(0.0, 20.0),
        service_s=st.floats(0.01, 2.0),
        tokens=st.integers(1, 500),
    )


prospects = st.sampled_from([None, 0.0])


def look(now: float, elsewhere_s: float | None) -> Prospect:
    return Prospect(now, pods=1, elsewhere_s=None if elsewhere_s is None else now)


def served_in_turn(
    queue: ClassQueue[Waiter] | DeadlineQueue[Waiter], elsewhere_s: float | None
) -> list[Waiter]:
    """Let one after the other go, each for as long as it takes."""
    order, now = [], 0.0
    while len(queue):
        turn = queue.next(look(now, elsewhere_s), now=now).first
        if turn is None:
            now += 1.0
            continue
        if isinstance(queue, ClassQueue):
            queue.serve(turn)
        queue.remove(turn.waiter)
        order.append(turn.waiter)
        now += turn.waiter.service_s
    return order


@given(st.lists(waiters(NO_TENANT), max_size=40), prospects)
def test_one_tenant_has_the_order_of_deadlines(
    given_ones: list[Waiter], elsewhere_s: float | None
) -> None:
    fair: ClassQueue[Waiter] = ClassQueue()
    plain: DeadlineQueue[Waiter] = DeadlineQueue()
    for waiter in given_ones:
        fair.add(waiter)
        plain.add(waiter)

    assert served_in_turn(fair, elsewhere_s) == served_in_turn(plain, elsewhere_s)


@given(st.lists(waiters(*TENANTS), max_size=40), prospects)
def test_no_pod_is_idle_while_any_tenant_waits(
    given_ones: list[Waiter], elsewhere_s: float | None
) -> None:
    queue: ClassQueue[Waiter] = ClassQueue()
    for waiter in given_ones:
        queue.add(waiter)
    now = 0.0
    while len(queue):
        found = queue.next(look(now, elsewhere_s), now=now)
        # A request that no prefill pod takes is offered to decode pods.
        turn = found.first or found.excess[0]
        queue.serve(turn)
        queue.remove(turn.waiter)
        now += turn.waiter.service_s


@given(st.lists(waiters(*TENANTS), max_size=40))
def test_all_are_on_time_by_deadline_whatever_their_tenants_if_all_can_be(
    given_ones: list[Waiter],
) -> None:
    queue: ClassQueue[Waiter] = ClassQueue()
    end_s, feasible = 0.0, []
    for waiter in sorted(given_ones, key=lambda each: each.deadline_s):
        if end_s + waiter.service_s <= waiter.deadline_s:
            end_s += waiter.service_s
            feasible.append(waiter)
    for waiter in feasible:
        queue.add(waiter)

    assert served_in_turn(queue, None) == feasible


@given(
    st.lists(waiters(*TENANTS), min_size=1, max_size=60),
    st.lists(st.integers(0, 2), max_size=80),
    st.booleans(),
)
def test_of_two_that_always_wait_none_is_far_ahead(
    sizes: list[Waiter], arrivals: list[int], late: bool
) -> None:
    """Each of three tenants always has requests that cannot all be on time."""
    queue: ClassQueue[Waiter] = ClassQueue()
    served = dict.fromkeys(TENANTS, 0.0)
    count = dict.fromkeys(TENANTS, 0)
    sizes_of = {tenant: [s for s in sizes if s.tenant == tenant] or sizes for tenant in TENANTS}

    def come(tenant: Tenant, now: float) -> None:
        like = sizes_of[tenant][count[tenant] % len(sizes_of[tenant])]
        count[tenant] += 1
        deadline_s = now + (0.001 if late and tenant is TENANTS[0] else 3.0)
        queue.add(replace(like, tenant=tenant, deadline_s=deadline_s))

    for tenant in TENANTS:
        for _ in range(700):
            come(tenant, 0.0)
    most = max(size.tokens for size in sizes)
    now = 0.0
    for step in range(600):
        turn = queue.next(look(now, None), now=now).first
        assert turn is not None
        queue.serve(turn)
        queue.remove(turn.waiter)
        tenant = turn.waiter.tenant
        served[tenant] += turn.waiter.tokens / tenant.weight
        if step < len(arrivals):
            come(TENANTS[arrivals[step]], now)
        now += turn.waiter.service_s
        apart = max(served.values()) - min(served.values())
        assert apart <= (AHEAD_REQUESTS + 2 * max(1 / t.weight for t in TENANTS)) * most
