"""The promise, whether it is kept, and its cost: `python -m benchmarks.promise`, or `--quick`.

Finished runs are kept in the user's cache: an interrupted benchmark goes on where it was, and a
change of the core makes only Tandem's runs anew.
"""

import argparse
import json
import time
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.promise import plot, tables
from benchmarks.promise.contenders import POLICIES
from benchmarks.promise.design import sample
from benchmarks.promise.kept import CACHE, REPOSITORY
from benchmarks.promise.quick import QUICK
from benchmarks.promise.scores import Result, lines, worst
from benchmarks.promise.work import Job, all_of

QUICK_POLICIES = "tandem,hold,fixed,clairvoyant"
REPORT = REPOSITORY / "build" / "benchmarks" / "promise"


def main() -> None:
    """Print a line per case as it ends, then the tables; write them and the picture."""
    options = _options()
    began_s = time.monotonic()
    cases = QUICK if options.quick else sample(options.sample, options.traces)
    chosen = [case for case in cases if fnmatch(case.name, options.only)]
    jobs = [Job(case, options.policy, options.cache, options.traces) for case in chosen]
    print(tables.HEAD, flush=True)
    results = []
    for number, done in enumerate(all_of(jobs, processes=options.processes), start=1):
        results.append(Result(done.case, done.rows))
        print(f"{number:3}/{len(jobs)} {tables.line(results[-1])}", flush=True)
    order = {case.name: place for place, case in enumerate(chosen)}
    results.sort(key=lambda result: order[result.case.name])
    before = [] if options.before is None else _read(options.before, results)
    report = _report(results, before)
    print(f"\n{report}\n\n{len(results)} cases in {time.monotonic() - began_s:.0f} s")
    _write(options.report, results, report)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.promise", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="sixteen cases, some minutes")
    parser.add_argument("--sample", type=int, default=1, help="which sample; 2 is for the last run")
    parser.add_argument("--only", metavar="GLOB", default="*", help="cases of these names alone")
    parser.add_argument(
        "--policy",
        metavar="NAME,NAME",
        type=lambda text: tuple(text.split(",")),
        help=f"of {', '.join(POLICIES)}; all if left out, of the quick ones {QUICK_POLICIES}",
    )
    parser.add_argument("-j", "--processes", type=int, default=2)
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="where public traces are")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where finished runs are kept")
    parser.add_argument("--report", type=Path, default=REPORT, help="where tables are written")
    parser.add_argument("--before", type=Path, metavar="FILE", help="results.json of an older core")
    options = parser.parse_args()
    usual = QUICK_POLICIES.split(",") if options.quick else POLICIES
    options.policy = tuple(options.policy or usual)
    unknown = sorted(set(options.policy) - set(POLICIES))
    if unknown:
        parser.error(f"--policy {', '.join(unknown)}: take some of {', '.join(POLICIES)}")
    return options


def _report(results: Sequence[Result], before: Sequence[Result]) -> str:
    return "\n\n".join(
        (
            tables.verdicts(lines(results, before)),
            f"Cases that use most of their budget:\n\n{tables.by_case(worst(results))}",
        )
    )


def _write(folder: Path, results: Sequence[Result], report: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = {result.case.name: result.rows for result in results}
    (folder / "results.json").write_text(json.dumps(rows, indent=1) + "\n")
    (folder / "report.md").write_text(f"{report}\n\nAll cases:\n\n{tables.by_case(results)}\n")
    (folder / "promise.svg").write_text(plot.svg(results))
    print(f"written to {folder}")


def _read(path: Path, results: Sequence[Result]) -> list[Result]:
    """Return what an earlier run wrote of these cases."""
    rows = json.loads(path.read_text())
    return [Result(r.case, rows[r.case.name]) for r in results if r.case.name in rows]


if __name__ == "__main__":
    main()
