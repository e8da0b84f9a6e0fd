"""The number of routers, from how busy they are."""

from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.core.guard.router_count import RouterCount, count_routers
from tandem_operator.core.guard.stabilization import Wants
from tandem_operator.core.tuning.tuning import TUNING
from tests.unit.workloads.cluster import report

TICK_S = 5.0
SHRINK_AFTER_S = TUNING.guard.router_shrink_after_s


class Pool:
    """Routers that share a load, tick by tick."""

    def __init__(self, *, asked=2, least=2, most=8):
        self.asked, self.least, self.most = asked, least, most
        self.now_s, self.wants = 1000.0, Wants()

    def tick(self, load, *, silent=0) -> RouterCount:
        self.now_s += TICK_S
        share = None if load is None else load / self.asked
        reports = [report(busy_share=share) for _ in range(self.asked - silent)]
        found = count_routers(
            self.wants,
            reports,
            asked=self.asked,
            expected=self.asked,
            least=self.least,
            most=self.most,
            now_s=self.now_s,
        )
        self.asked, self.wants = found.to, found.wants
        return found

    def go_on(self, load, *, seconds, silent=0):
        for _ in range(int(seconds / TICK_S)):
            self.tick(load, silent=silent)
        return self.asked


def test_a_pool_starts_with_its_least():
    found = count_routers(Wants(), (), asked=None, expected=0, least=2, most=8, now_s=0.0)

    assert (found.to, found.why) == (2, None)


def test_more_come_at_once_when_those_there_are_busy_for_half_of_a_core():
    pool = Pool()

    assert pool.tick(0.9).why is None
    found = pool.tick(1.4)

    assert (found.to, found.why) == (3, "each router uses 70 % of a core on average")


def test_fewer_come_once_fewer_were_enough_for_five_minutes():
    pool = Pool()
    pool.tick(1.4)

    assert pool.go_on(0.3, seconds=SHRINK_AFTER_S - TICK_S) == 3
    assert pool.go_on(0.3, seconds=3 * TICK_S) == 2


def test_a_peak_in_the_five_minutes_keeps_them():
    pool = Pool()
    pool.tick(1.4)

    for _ in range(10):
        assert pool.go_on(0.3, seconds=120) == 3
        assert pool.go_on(1.2, seconds=10) == 3


def test_a_load_between_the_two_marks_changes_nothing():
    pool = Pool(asked=3)

    assert pool.go_on(0.9, seconds=1200) == 3


def test_nothing_shrinks_while_a_router_says_nothing():
    pool = Pool(asked=4)

    assert pool.go_on(0.3, seconds=1200, silent=1) == 4
    assert pool.go_on(None, seconds=1200) == 4


def test_the_users_bounds_hold_whatever_the_load():
    assert Pool(most=2).go_on(9.0, seconds=60) == 2
    assert Pool(asked=9).tick(0.1).to == 8
    assert Pool(asked=1).tick(0.1).to == 2


@given(
    loads=st.lists(st.floats(0.0, 12.0), min_size=1, max_size=60),
    least=st.integers(1, 4),
    more=st.integers(0, 6),
)
def test_no_count_leaves_its_bounds_and_no_load_is_left_without_routers(loads, least, more):
    pool = Pool(asked=least, least=least, most=least + more)

    for load in loads:
        found = pool.tick(load)

        assert least <= found.to <= least + more
        assert found.to == pool.most or load / found.to <= TUNING.guard.router_busy_share + 1e-9
