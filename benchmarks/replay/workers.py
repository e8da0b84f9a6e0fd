"""Replays, one after the other or several at once; a line reports each as it ends."""

import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType

from benchmarks.replay.simulate import Job, Result, remembered, run
from tandem_operator.sim.traces.trace import Trace


class NotReplayedError(LookupError):
    """The wanted result was never made, and nothing may be replayed."""


class Workers:
    """`jobs` processes; with `remembered_only` nothing is replayed."""

    def __init__(self, jobs: int, *, remembered_only: bool = False) -> None:
        # One at a time asks for the fewest points of a search: all of them were made.
        self.jobs = 1 if remembered_only else jobs
        self._remembered_only = remembered_only
        self._processes: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._processes is not None:
            self._processes.shutdown(cancel_futures=True)

    def run_all(self, jobs: Sequence[Job], trace: Trace, folder: Path) -> list[Result]:
        """Return the results of `jobs` on `trace`, in their order.

        Raises:
            NotReplayedError: one of them is not remembered and nothing may be replayed.
        """
        found = [remembered(job, folder) for job in jobs]
        missing = [index for index, result in enumerate(found) if result is None]
        if missing and self._remembered_only:
            raise NotReplayedError(f"{len(missing)} of {len(jobs)} replays were not made yet")
        for index, result, took_s in self._made([(i, jobs[i]) for i in missing], trace, folder):
            found[index] = result
            print(
                f"    {jobs[index].label}: {result.attainment:.3f} @ {result.good_per_gpu_s:.2f}, "
                f"{took_s:.0f} s",
                file=sys.stderr,
                flush=True,
            )
        return [result for result in found if result is not None]

    def _made(
        self, jobs: Sequence[tuple[int, Job]], trace: Trace, folder: Path
    ) -> Iterator[tuple[int, Result, float]]:
        if self.jobs <= 1 or len(jobs) <= 1:
            for index, job in jobs:
                yield (index, *_timed(job, trace, folder))
            return
        if self._processes is None:
            # The simulator's threads do not outlive a fork.
            self._processes = ProcessPoolExecutor(self.jobs, mp_context=get_context("spawn"))
        waiting: dict[Future[tuple[Result, float]], int] = {
            self._processes.submit(_timed, job, trace, folder): index for index, job in jobs
        }
        for done in as_completed(waiting):
            yield (waiting[done], *done.result())


def _timed(job: Job, trace: Trace, folder: Path) -> tuple[Result, float]:
    began_s = time.monotonic()
    return run(job, trace, folder=folder), time.monotonic() - began_s
