import asyncio
import contextlib
import itertools

import pytest

from tandem_operator.workqueue import KeyedQueue, WorkPace
from tests.unit.loop.virtualtime import run_virtual


class Worker:
    """Notes when it was called for which key; does what the test says."""

    def __init__(self, behave):
        self.behave = behave
        self.calls = []
        self.busy = 0
        self.most_busy = 0

    async def __call__(self, key):
        self.calls.append((key, round(asyncio.get_running_loop().time(), 3)))
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        try:
            return await self.behave(key, len(self.calls))
        finally:
            self.busy -= 1

    def times(self, key):
        return [at_s for called, at_s in self.calls if called == key]


@contextlib.asynccontextmanager
async def running(queue):
    task = asyncio.create_task(queue.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def rests(_key, _call):
    return 10.0


def test_many_additions_in_a_burst_are_one_pass():
    async def main():
        worker = Worker(rests)
        queue = KeyedQueue(worker)
        async with running(queue):
            for _ in range(100):
                queue.add("a")
            await asyncio.sleep(5)
        assert worker.calls == [("a", 0.2)]

    run_virtual(main)


def test_a_pass_is_repeated_when_it_asked_to_be():
    async def main():
        worker = Worker(rests)
        queue = KeyedQueue(worker)
        queue.add("a")
        async with running(queue):
            await asyncio.sleep(25)
        assert worker.times("a") == [0.2, 10.2, 20.2]

    run_virtual(main)


def test_an_addition_during_a_pass_brings_another_pass_and_never_two_at_once():
    async def main():
        async def slow(_key, _call):
            await asyncio.sleep(3)
            return 1000.0

        worker = Worker(slow)
        queue = KeyedQueue(worker, workers=4)
        async with running(queue):
            queue.add("a")
            await asyncio.sleep(1)
            queue.add("a")
            queue.add("a")
            await asyncio.sleep(20)
        assert len(worker.times("a")) == 2
        assert worker.most_busy == 1
        assert worker.times("a")[1] == pytest.approx(3.4)

    run_virtual(main)


def test_failures_back_off_exponentially_per_key_and_leave_other_keys_alone():
    async def main():
        async def fails_for_a(key, _call):
            if key == "a":
                raise RuntimeError("503")
            return 5.0

        worker = Worker(fails_for_a)
        queue = KeyedQueue(worker, pace=WorkPace(first_backoff_s=1, last_backoff_s=60))
        async with running(queue):
            queue.add("a")
            queue.add("b")
            await asyncio.sleep(600)
        gaps = [b - a for a, b in itertools.pairwise(worker.times("a"))]
        for number, gap in enumerate(gaps):
            assert 0.74 * min(60, 2**number) <= gap <= 1.01 * min(60, 2**number)
        assert len(gaps) >= 14
        assert len(worker.times("b")) == 120

    run_virtual(main)


def test_success_after_failures_ends_the_backoff():
    async def main():
        async def fails_thrice(_key, call):
            if call <= 3:
                raise RuntimeError("503")
            return 2.0

        worker = Worker(fails_thrice)
        queue = KeyedQueue(worker)
        async with running(queue):
            queue.add("a")
            await asyncio.sleep(60)
        later = worker.times("a")[4:]
        assert all(b - a == pytest.approx(2.0) for a, b in itertools.pairwise(later))

    run_virtual(main)


def test_events_do_not_defeat_the_backoff_of_a_failing_key():
    async def main():
        async def fails(_key, _call):
            raise RuntimeError("503")

        worker = Worker(fails)
        queue = KeyedQueue(worker)
        async with running(queue):
            for _ in range(1200):
                queue.add("a")
                await asyncio.sleep(0.5)
        assert len(worker.calls) < 40

    run_virtual(main)


def test_a_pool_that_changes_all_the_time_is_looked_at_once_a_second():
    async def main():
        worker = Worker(rests)
        queue = KeyedQueue(worker)
        async with running(queue):
            for _ in range(200):
                queue.add("a")
                await asyncio.sleep(0.05)
        assert 9 <= len(worker.calls) <= 11

    run_virtual(main)


def test_no_more_passes_at_once_than_workers():
    async def main():
        async def slow(_key, _call):
            await asyncio.sleep(2)
            return 1000.0

        worker = Worker(slow)
        queue = KeyedQueue(worker, workers=3)
        async with running(queue):
            for key in range(10):
                queue.add(key)
            await asyncio.sleep(30)
        assert worker.most_busy == 3
        assert {key for key, _ in worker.calls} == set(range(10))

    run_virtual(main)


def test_many_keys_whose_passes_wait_do_not_make_a_quick_one_wait():
    async def main():
        async def silent_or_quick(key, _call):
            await asyncio.sleep(0.05 if key == "healthy" else 4.0)
            return 5.0

        worker = Worker(silent_or_quick)
        queue = KeyedQueue(worker)
        async with running(queue):
            for key in (*range(100), "healthy"):
                queue.add(key)
            await asyncio.sleep(600)
        seen = worker.times("healthy")
        waits = [later - before for before, later in itertools.pairwise(seen)]
        # Those that wait are still looked at, each in its turn.
        assert min(len(worker.times(key)) for key in range(100)) >= 4
        assert max(waits) < 5.0 + 1.0

    run_virtual(main)


def test_a_key_that_is_slow_no_more_is_treated_as_the_others():
    async def main():
        async def slow_at_first(key, _call):
            now_s = asyncio.get_running_loop().time()
            await asyncio.sleep(4.0 if key != "mended" or now_s < 60 else 0.05)
            return 5.0

        worker = Worker(slow_at_first)
        queue = KeyedQueue(worker)
        async with running(queue):
            for key in (*range(20), "mended"):
                queue.add(key)
            await asyncio.sleep(600)
        late = [at_s for at_s in worker.times("mended") if at_s > 120]
        assert max(later - before for before, later in itertools.pairwise(late)) < 6.0

    run_virtual(main)


def test_a_pass_that_hangs_is_cut_off_and_tried_again():
    async def main():
        async def hangs_once(_key, call):
            if call == 1:
                await asyncio.Event().wait()
            return 1000.0

        worker = Worker(hangs_once)
        outcomes = []
        queue = KeyedQueue(
            worker, pace=WorkPace(limit_s=60), done=lambda result, _seconds: outcomes.append(result)
        )
        async with running(queue):
            queue.add("a")
            await asyncio.sleep(100)
        assert outcomes == ["error", "success"]

    run_virtual(main)


def test_a_key_that_is_gone_is_not_worked_on_until_it_is_added_again():
    async def main():
        async def gone(_key, _call):
            return None

        worker = Worker(gone)
        queue = KeyedQueue(worker)
        async with running(queue):
            queue.add("a")
            await asyncio.sleep(1000)
            assert len(worker.calls) == 1
            queue.add("a")
            await asyncio.sleep(1000)
        assert len(worker.calls) == 2

    run_virtual(main)


def test_the_heartbeat_goes_on_while_nothing_is_due():
    async def main():
        queue = KeyedQueue(Worker(rests))
        async with running(queue):
            await asyncio.sleep(1000)
            assert asyncio.get_running_loop().time() - queue.heartbeat_s <= 5

    run_virtual(main)


def test_stopping_cancels_the_pass_under_way():
    async def main():
        cancelled = asyncio.Event()

        async def waits(_key, _call):
            try:
                await asyncio.sleep(50)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        queue = KeyedQueue(Worker(waits))
        async with running(queue):
            queue.add("a")
            await asyncio.sleep(1)
        assert cancelled.is_set()

    run_virtual(main)
