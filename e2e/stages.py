"""`make test`: every stage in order, its set-up included, each with its time and its count.

A failed stage does not hide the later ones: all of them run, and the exit status tells. Once the
first has ended, what later stages need is made in the background, one thing at a time.
"""

import itertools
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

from e2e.cluster import names

REPORTS = names.BUILD / "tests"
_SLOWEST = 5
PYTEST = (sys.executable, "-m", "pytest", "--no-header", "-ra")


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of the whole: `make` targets that set it up, then tests by pytest's arguments."""

    name: str
    what: str
    pytest: tuple[str, ...]
    targets: tuple[str, ...] = ()
    # Neighbours with a lane make one round: lanes run side by side, the stages of one in turn.
    lane: str = ""
    # It only computes, and gives way to what waits for things to happen in time.
    gives_way: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a stage; `passed` counts tests."""

    stage: Stage
    seconds: float
    passed: int
    failed: int
    skipped: int
    error: str | None = None

    @property
    def is_good(self) -> bool:
        """Return whether everything in it passed, and something was there to pass."""
        return self.error is None and self.failed == 0 and self.passed > 0

    def __str__(self) -> str:
        """Return one line."""
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        return f"{self.stage.name}: {self.error or counts} ({self.seconds:.0f} s)"


STAGES = (
    Stage(
        "check",
        "lint, types, import contracts; unit and golden tests of what is shipped",
        targets=("lint",),
        pytest=(
            *("tests/unit", "tests/golden", "-m", "not simulates"),
            *("-n", "4", "--dist", "worksteal"),
        ),
    ),
    Stage(
        "tools",
        "unit tests of benchmarks, demo, faults and cluster",
        pytest=("tests/tools", "-n", "2"),
    ),
    Stage(
        "simulation",
        "decisions over simulated load; the rules on random histories",
        # Its time is virtual: a test that gets little of a busy machine does not hang.
        pytest=(
            *("tests/simulation", "tests/property", "tests/unit", "-m", "simulates"),
            *("--hypothesis-profile", "deep", "-n", "2", "--timeout", "600"),
        ),
        lane="computes",
        gives_way=True,
    ),
    Stage(
        "integration",
        "a real API server on loopback",
        targets=("test-tools",),
        # Mostly waits: files run side by side, each worker with a control plane of its own.
        pytest=("tests/integration", "-n", "3", "--dist", "loadfile"),
        lane="waits",
    ),
    Stage(
        "engine",
        "real vLLM",
        targets=("engine-env",),
        pytest=("tests/engine",),
        lane="computes",
    ),
    Stage(
        "e2e",
        "everything, on kind",
        targets=("cluster-up", "images", "prometheus"),
        pytest=("e2e",),
    ),
    Stage(
        "quickstart",
        "the README's three commands, on a bare cluster and from a registry",
        pytest=("tests/quickstart", "-s"),
    ),
)


class SetUps:
    """Runs the `make` targets of stages in the background, in the stages' order."""

    def __init__(self, stages: Sequence[Stage], *, reports: Path = REPORTS) -> None:
        self._reports = reports
        reports.mkdir(parents=True, exist_ok=True)
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._made: dict[str, Future[str | None]] = {
            stage.name: self._pool.submit(self._make, stage) for stage in stages if stage.targets
        }
        self._pool.shutdown(wait=False)

    def problem(self, stage: Stage, *, output: IO[str] | None) -> str | None:
        """Wait until what the stage needs is there; else return which target failed."""
        made = self._made.get(stage.name)
        if made is None:
            return None
        if not made.done():
            logs = ", ".join(str(self._log(target)) for target in stage.targets)
            print(f"    its set-up goes on: {logs}", file=output, flush=True)
        failed = made.result()
        if failed is None:
            return None
        print(self._log(failed).read_text(errors="replace"), file=output, flush=True)
        return f"`make {failed}` failed"

    def _make(self, stage: Stage) -> str | None:
        for target in stage.targets:
            with self._log(target).open("w") as log:
                if _run(("make", "--no-print-directory", target), output=log) != 0:
                    return target
        return None

    def _log(self, target: str) -> Path:
        return self._reports / f"make-{target}.log"


def run_stage(
    stage: Stage, set_ups: SetUps, *, reports: Path = REPORTS, output: IO[str] | None = None
) -> Result:
    """Run a stage as soon as it is set up; what it says goes to `output`, or to the terminal."""
    started = time.monotonic()
    problem = set_ups.problem(stage, output=output)
    if problem is not None:
        return Result(stage, time.monotonic() - started, 0, 0, 0, problem)
    report = reports / f"{stage.name}.xml"
    report.unlink(missing_ok=True)
    giving_way = ("nice", "-n", "10") if stage.gives_way else ()
    command = (*giving_way, *PYTEST, *stage.pytest, f"--junitxml={report}")
    status = _run(command, output=output)
    seconds = time.monotonic() - started
    if not report.exists():
        return Result(stage, seconds, 0, 0, 0, f"pytest ended with {status} and without a report")
    passed, failed, skipped = count(report)
    error = f"pytest ended with {status}" if status != 0 and failed == 0 else None
    return Result(stage, seconds, passed, failed, skipped, error)


def run_round(stages: Sequence[Stage], set_ups: SetUps, *, reports: Path = REPORTS) -> list[Result]:
    """Run lanes side by side; the output of each but the first is shown once it has ended."""
    lanes: dict[str, list[Stage]] = {}
    for stage in stages:
        lanes.setdefault(stage.lane, []).append(stage)
    first, *others = lanes.values()
    logs = [reports / f"{lane[0].name}.log" for lane in others]
    found: dict[str, Result] = {}

    def run_lane(lane: Sequence[Stage], output: IO[str] | None) -> None:
        for stage in lane:
            found[stage.name] = run_stage(stage, set_ups, reports=reports, output=output)

    def beside(lane: Sequence[Stage], path: Path) -> None:
        with path.open("w") as output:
            run_lane(lane, output)

    threads = [
        threading.Thread(target=beside, args=pair) for pair in zip(others, logs, strict=True)
    ]
    for thread in threads:
        thread.start()
    run_lane(first, None)
    for thread, path in zip(threads, logs, strict=True):
        thread.join()
        print(path.read_text(errors="replace"), end="", flush=True)
    return [found[stage.name] for stage in stages]


def rounds(stages: Sequence[Stage]) -> list[list[Stage]]:
    """Group neighbours whose lanes run side by side; a stage without a lane is alone."""
    return [
        list(together)
        for _, together in itertools.groupby(
            stages, key=lambda stage: "lanes" if stage.lane else stage.name
        )
    ]


def count(report: Path) -> tuple[int, int, int]:
    """Tests that passed, failed and were skipped, from a JUnit report that pytest wrote."""
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    passed = failed = skipped = 0
    for suite in suites:
        bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        passed += int(suite.get("tests", 0)) - bad - int(suite.get("skipped", 0))
        failed += bad
        skipped += int(suite.get("skipped", 0))
    return passed, failed, skipped


def slowest(report: Path) -> list[tuple[str, float]]:
    """Return the files of tests that took longest, with their seconds, from such a report."""
    spent: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        spent[case.get("classname", "").rpartition(".")[2]] += float(case.get("time", 0.0))
    return sorted(spent.items(), key=lambda pair: -pair[1])[:_SLOWEST]


def _run(command: Sequence[str], *, output: IO[str] | None) -> int:
    return subprocess.run(
        command,
        cwd=names.ROOT,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        check=False,
    ).returncode


def main(chosen: Sequence[str]) -> int:
    """Run all stages, or those that are named."""
    unknown = set(chosen) - {stage.name for stage in STAGES}
    if unknown:
        known = ", ".join(stage.name for stage in STAGES)
        print(f"there is no stage {', '.join(sorted(unknown))}; choose of {known}")
        return 2
    stages = [stage for stage in STAGES if not chosen or stage.name in chosen]
    started = time.monotonic()
    results: list[Result] = []
    in_turn = rounds(stages)
    set_ups = SetUps(in_turn[0])
    for place, together in enumerate(in_turn):
        if place == 1:
            # Not before: builds beside the first tests, which go by the clock, make these fail.
            set_ups = SetUps([stage for later in in_turn[1:] for stage in later])
        for number, stage in enumerate(together, start=len(results) + 1):
            print(f"==> [{number}/{len(stages)}] {stage.name}: {stage.what}", flush=True)
        for result in run_round(together, set_ups):
            results.append(result)
            print(f"    {result}", flush=True)
    print()
    for result in results:
        print(f"  {'ok    ' if result.is_good else 'FAILED'} {result}")
        report = REPORTS / f"{result.stage.name}.xml"
        if result.error is None and report.exists():
            longest = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in slowest(report))
            print(f"         longest, side by side: {longest}")
    minutes = (time.monotonic() - started) / 60
    passed, failed = sum(r.passed for r in results), sum(r.failed for r in results)
    good = all(result.is_good for result in results)
    verdict = "passed" if good else "FAILED"
    print(f"{verdict}: {passed} tests passed, {failed} failed, {minutes:.1f} min", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
