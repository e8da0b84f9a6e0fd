"""Best effort never starves, and takes no time that guaranteed requests are expected to need."""

from hypothesis import given
from hypothesis import strategies as st

from tandem_routing.best_effort import Need
from tandem_routing.deadline_queue import turn_of
from tandem_routing.outstanding import Load, Outstanding
from tandem_routing.rank import Rank
from tandem_routing.spare_queue import OVERDUE_SHARE, overdue_s
from tests.unit.router.waiter import Waiter, queue_of

LOOK_S = 0.25
BEST_EFFORT = st.builds(
    Waiter,
    name=st.just(""),
    deadline_s=st.floats(1.0, 300.0),
    service_s=st.floats(0.01, 4.0),
    rank=st.builds(Rank.of, guaranteed=st.just(False), priority=st.integers(0, 2)),
)


@given(st.lists(BEST_EFFORT, min_size=1, max_size=12), st.integers(1, 5))
def test_an_overdue_request_waits_no_longer_than_its_share_takes(
    waiters: list[Waiter], pods: int
) -> None:
    """Guaranteed requests take all there is: nothing but the share lets best effort in."""
    queue = queue_of(*waiters)
    placed: dict[Waiter, float] = {}
    now = 0.0
    while len(queue):
        due = queue.due(pods=pods, now=now)
        if due is not None:
            queue.took(due)
            queue.remove(due.waiter)
            placed[due.waiter] = now
        else:
            now += LOOK_S
    for waiter, at_s in placed.items():
        before = [each for each in waiters if each.deadline_s <= waiter.deadline_s]
        work_s = sum(each.service_s for each in before)
        latest_s = max(overdue_s(each) for each in before) + work_s / (OVERDUE_SHARE * pods)
        assert at_s <= latest_s + 2 * LOOK_S * len(before)
        assert at_s >= overdue_s(waiter)


@given(
    st.lists(st.lists(st.floats(0.0, 2.0), max_size=4), min_size=1, max_size=4),
    st.floats(0.01, 3.0),
    st.floats(0.1, 3.0),
    st.floats(0.0, 6.0),
    st.integers(1, 3),
)
def test_the_expected_backlog_still_fits_after_best_effort_has_its_place(
    loads: list[list[float]], service_s: float, margin_s: float, work_s: float, routers: int
) -> None:
    pods = [Outstanding(f"p{number}") for number in range(len(loads))]
    for pod, works in zip(pods, loads, strict=True):
        for each in works:
            pod.enter(Load(10, each), 0.0)
    turn = turn_of(Waiter("", 60.0, Rank(best_effort=True), service_s=service_s))

    chosen = Need(margin_s, work_s).leaves(turn, pods, pods, routers=routers, now=0.0)

    for pod in chosen:
        pod.enter(Load(10, turn.expected.work_s(alone=not pod.requests)), 0.0)
        spare_s = sum(max(0.0, margin_s - routers * each.free_s(0.0)) for each in pods)
        assert spare_s >= routers * work_s - 1e-9
        break
