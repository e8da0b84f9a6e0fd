"""A router's report of how busy it is."""

import pytest

from tandem_engine.router.accounting.busy import Busy


class Machine:
    """A clock, and what was computed by it."""

    def __init__(self):
        self.now_s, self.cpu_s = 100.0, 7.0
        self.busy = Busy(clock=lambda: self.now_s, cpu=lambda: self.cpu_s)

    def run(self, seconds, *, share, asked_each_s=5.0):
        """Compute for a share of the time, asked now and then."""
        passed = 0.0
        while passed < seconds:
            self.now_s += asked_each_s
            self.cpu_s += asked_each_s * share
            passed += asked_each_s
            self.busy.share()
        return self.busy.share()


def test_it_is_the_share_of_a_core_of_the_last_half_minute():
    machine = Machine()

    assert machine.run(60, share=0.2) == pytest.approx(0.2)
    assert machine.run(10, share=0.8) == pytest.approx(0.4)
    assert machine.run(30, share=0.8) == pytest.approx(0.8)


def test_it_forgets_what_was_before_a_time_without_questions():
    machine = Machine()
    machine.run(60, share=1.0)

    machine.run(600, share=0.0, asked_each_s=300.0)

    assert machine.busy.share() == 0.0


def test_it_is_nothing_in_the_first_second():
    machine = Machine()
    machine.cpu_s += 0.4
    machine.now_s += 0.4

    assert machine.busy.share() == 0.0


async def test_a_router_tells_it_to_the_operator_and_to_prometheus(pool):
    told = (await pool.arrivals())["busy_share"]

    assert 0.0 <= told <= 2.0
    assert "tandem_router_busy_share" in await pool.metrics()
