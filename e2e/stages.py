"""`make test`: every stage in order, its set-up included, each with its time and its count.

A failed stage does not hide the later ones: all of them run, and the exit status tells.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from e2e.cluster import names

REPORTS = names.BUILD / "tests"
PYTEST = (sys.executable, "-m", "pytest", "--no-header", "-ra")


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of the whole: `make` targets that set it up, then tests by pytest's arguments."""

    name: str
    what: str
    pytest: tuple[str, ...]
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """How a stage went; `passed` counts tests."""

    stage: Stage
    seconds: float
    passed: int
    failed: int
    skipped: int
    error: str | None = None

    @property
    def is_good(self) -> bool:
        """Whether everything in it passed, and something was there to pass."""
        return self.error is None and self.failed == 0 and self.passed > 0

    def __str__(self) -> str:
        """One line."""
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        return f"{self.stage.name}: {self.error or counts} ({self.seconds:.0f} s)"


STAGES = (
    Stage(
        "check",
        "lint, types, import contracts; unit and golden tests",
        targets=("lint",),
        pytest=("tests/unit", "tests/golden", "-n", "3"),
    ),
    Stage(
        "simulation",
        "decisions over simulated load; the rules on random histories",
        pytest=("tests/simulation", "tests/property", "--hypothesis-profile", "deep", "-n", "2"),
    ),
    Stage(
        "integration",
        "a real API server on loopback",
        targets=("test-tools",),
        # Mostly waits: files run side by side, each worker with a control plane of its own.
        pytest=("tests/integration", "-n", "3", "--dist", "loadfile"),
    ),
    Stage("engine", "real vLLM", targets=("engine-env",), pytest=("tests/engine",)),
    Stage(
        "e2e",
        "everything, on kind",
        targets=("cluster-up", "images", "prometheus"),
        pytest=("e2e",),
    ),
)


def run_stage(stage: Stage, *, reports: Path = REPORTS) -> Result:
    """Set a stage up and run it."""
    started = time.monotonic()
    for target in stage.targets:
        if _run(("make", "--no-print-directory", target)) != 0:
            return Result(stage, time.monotonic() - started, 0, 0, 0, f"`make {target}` failed")
    report = reports / f"{stage.name}.xml"
    report.unlink(missing_ok=True)
    status = _run((*PYTEST, *stage.pytest, f"--junitxml={report}"))
    seconds = time.monotonic() - started
    if not report.exists():
        return Result(stage, seconds, 0, 0, 0, f"pytest ended with {status} and without a report")
    passed, failed, skipped = count(report)
    error = f"pytest ended with {status}" if status != 0 and failed == 0 else None
    return Result(stage, seconds, passed, failed, skipped, error)


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


def _run(command: Sequence[str]) -> int:
    return subprocess.run(command, cwd=names.ROOT, stdin=subprocess.DEVNULL, check=False).returncode


def main(chosen: Sequence[str]) -> int:
    """Run all stages, or those that are named."""
    unknown = set(chosen) - {stage.name for stage in STAGES}
    if unknown:
        known = ", ".join(stage.name for stage in STAGES)
        print(f"there is no stage {', '.join(sorted(unknown))}; choose of {known}")
        return 2
    stages = [stage for stage in STAGES if not chosen or stage.name in chosen]
    started = time.monotonic()
    results = []
    for number, stage in enumerate(stages, start=1):
        print(f"==> [{number}/{len(stages)}] {stage.name}: {stage.what}", flush=True)
        results.append(run_stage(stage))
        print(f"    {results[-1]}", flush=True)
    print()
    for result in results:
        print(f"  {'ok    ' if result.is_good else 'FAILED'} {result}")
    minutes = (time.monotonic() - started) / 60
    passed, failed = sum(r.passed for r in results), sum(r.failed for r in results)
    good = all(result.is_good for result in results)
    verdict = "passed" if good else "FAILED"
    print(f"{verdict}: {passed} tests passed, {failed} failed, {minutes:.1f} min", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
