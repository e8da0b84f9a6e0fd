"""Plays scenarios, keeps each result at once, and skips what this code has already played."""

import subprocess
import time
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from e2e.cluster import names
from e2e.faults.evidence import Stage
from e2e.faults.results import Result, append, newest, result_of
from e2e.faults.scenario import Scenario, Where

RESULTS = names.BUILD / "faults"


def results_path(where: Where, *, folder: Path = RESULTS) -> Path:
    """Return the results of one kind of ground."""
    return folder / f"{where}.jsonl"


def all_results(folder: Path = RESULTS) -> dict[tuple[str, int], Result]:
    """Return the newest result of each scenario and seed."""
    return newest(results_path(where, folder=folder) for where in Where)


def code_now() -> str:
    """Return the commit, with `+` where files that git knows were changed."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=names.ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()

    return git("rev-parse", "--short=10", "HEAD") + ("+" if git("diff", "--stat", "HEAD") else "")


def run(
    scenarios: Iterable[Scenario],
    *,
    seeds: Iterable[int],
    code: str,
    tell: Callable[[str], None],
    folder: Path = RESULTS,
    again: bool = False,
    whole: bool = True,
) -> list[Result]:
    """Play every scenario with every seed; a step that a play could not do is its violation."""
    known = all_results(folder)
    chosen = list(scenarios)
    wanted = [(scenario, seed) for seed in seeds for scenario in chosen]
    results = []
    for number, (scenario, seed) in enumerate(wanted, start=1):
        mark = f"[{number}/{len(wanted)}] {scenario.where} {scenario.name} seed {seed}"
        before = known.get((scenario.name, seed))
        if before is not None and before.code == code and not again:
            tell(f"{mark}: known ({'holds' if before.holds else 'VIOLATED'})")
            results.append(before)
            continue
        tell(f"{mark}: {scenario.what}")
        result = play_once(scenario, seed=seed, code=code, tell=tell, folder=folder, whole=whole)
        append(results_path(scenario.where, folder=folder), result)
        tell(f"    {result.took_s:.0f} s: {result}")
        results.append(result)
    return results


def play_once(
    scenario: Scenario,
    *,
    seed: int,
    code: str,
    tell: Callable[[str], None],
    folder: Path = RESULTS,
    whole: bool = True,
) -> Result:
    """Play one scenario once."""
    logs = folder / "logs" / scenario.name
    logs.mkdir(parents=True, exist_ok=True)
    began, started = datetime.now(UTC), time.monotonic()
    at = began.isoformat(timespec="seconds")
    try:
        seen = scenario.play(Stage(logs, seed, tell, whole))
    except Exception as error:
        (logs / f"error-{seed}.txt").write_text(traceback.format_exc())
        sentence = f"it could not be played: {type(error).__name__}: {error}"
        return Result(
            scenario=scenario.name,
            where=scenario.where,
            seed=seed,
            code=code,
            at=at,
            took_s=round(time.monotonic() - started, 1),
            sent=0,
            finished=0,
            refused=0,
            lost=0,
            hung=0,
            left=0,
            wrong=0,
            recovered_s=None,
            named_s=None,
            violations=[sentence[:500]],
        )
    took_s = time.monotonic() - started
    return result_of(scenario, seen, seed=seed, code=code, at=at, took_s=took_s)
