"""Alarms far and near, of which only the near ones have a timer of their own."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tandem_engine.router.forwarding.alarms import Alarms
from tandem_engine.router.forwarding.watchdog import Watchdog
from tests.unit.loop.virtualtime import run_virtual


def rung(
    *ats: float, then: Callable[[Alarms], None] = lambda alarms: None
) -> list[tuple[float, float]]:
    """Return each alarm that rang, with the time at which it did, to the microsecond."""
    found: list[tuple[float, float]] = []

    async def main() -> None:
        loop, alarms = asyncio.get_running_loop(), Alarms()
        await asyncio.sleep(0.9)
        for at in ats:
            alarms.set(at, lambda at=at: found.append((at, round(loop.time(), 6))))
        then(alarms)
        await asyncio.sleep(max(ats) + 1)

    run_virtual(main)
    return found


def test_each_alarm_rings_at_its_time_in_whatever_order_they_are_set() -> None:
    ats = (2.5, 1.0, 600.25, 0.95, 2.25)

    assert rung(*ats) == [(at, at) for at in sorted(ats)]


def test_a_time_that_is_over_rings_at_once() -> None:
    assert rung(0.5) == [(0.5, 0.9)]


@pytest.mark.parametrize("at", [0.95, 7.5])
def test_a_cancelled_alarm_does_not_ring(at: float) -> None:
    def cancel(alarms: Alarms) -> None:
        alarms.cancel(alarms.set(at, lambda: pytest.fail("it rang")))

    assert rung(8.5, then=cancel) == [(8.5, 8.5)]


def test_an_alarm_is_cancelled_in_its_last_second_too() -> None:
    def cancel(alarms: Alarms) -> None:
        alarm = alarms.set(7.5, lambda: pytest.fail("it rang"))
        alarms.set(7.25, lambda: alarms.cancel(alarm))

    assert rung(8.5, then=cancel) == [(8.5, 8.5)]


def test_a_deadline_that_moves_holds_as_it_is_last() -> None:
    async def work(watchdog: Watchdog) -> None:
        watchdog.move(9.5)
        await asyncio.sleep(5)
        watchdog.move(7.25)
        await asyncio.sleep(60)

    async def main() -> float:
        with pytest.raises(TimeoutError):
            await watched(work)
        return asyncio.get_running_loop().time()

    assert run_virtual(main) == pytest.approx(7.25)


def test_another_cancellation_goes_before_the_deadline() -> None:
    async def work(watchdog: Watchdog) -> None:
        task = asyncio.current_task()
        assert task is not None
        watchdog.end()
        task.cancel()
        await asyncio.sleep(60)

    async def main() -> None:
        await watched(work)

    with pytest.raises(asyncio.CancelledError):
        run_virtual(main)


def test_a_block_that_is_left_sees_no_end_any_more() -> None:
    async def main() -> bool:
        task = asyncio.current_task()
        assert task is not None
        with Watchdog(Alarms(), 2.0, task) as watchdog:
            pass
        ends = watchdog.end()
        await asyncio.sleep(10)
        return ends

    assert run_virtual(main) is False


async def watched(work: Callable[[Watchdog], Awaitable[None]]) -> None:
    task = asyncio.current_task()
    assert task is not None
    with Watchdog(Alarms(), 2.0, task) as watchdog:
        await work(watchdog)
