"""Jobs in a few processes: a case under its policies each; each is reported when it ends."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from benchmarks.promise.bench import Bench
from benchmarks.promise.cases import Case
from benchmarks.promise.contenders import POLICIES
from benchmarks.promise.kept import Kept, Row


@dataclass(frozen=True, slots=True)
class Job:
    """A case, the policies to run on it in turn, and where runs are kept."""

    case: Case
    policies: tuple[str, ...]
    cache: Path
    folder: Path | None


@dataclass(frozen=True, slots=True)
class Done:
    """The outcome of a job; a row is `None` where nothing of the kind reaches the target."""

    case: Case
    rows: dict[str, Row | None]
    wall_s: float


def work(job: Job) -> Done:
    """Do one job."""
    began_s = time.monotonic()
    bench = Bench(job.case, Kept(job.cache / "runs.jsonl"), job.folder)
    rows = {name: POLICIES[name](bench) for name in job.policies}
    return Done(job.case, rows, time.monotonic() - began_s)


def all_of(jobs: Sequence[Job], *, processes: int) -> Iterator[Done]:
    """Do all jobs, in any order."""
    with get_context("fork").Pool(processes, maxtasksperchild=4) as pool:
        yield from pool.imap_unordered(work, jobs)
