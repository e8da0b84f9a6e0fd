"""`python -m e2e.faults [SCENARIO|FAMILY ...]`: the fault matrix, and the page about it.

Each run checks its invariants; the exit status is 1 if one was violated. Results are kept in
build/faults/*.jsonl as they come: what this code has already played is not played again.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import names
from e2e.faults import on_kind, runner, soak, table
from e2e.faults.catalogue import SCENARIOS, SEQUENCES, chosen
from e2e.faults.scenario import Scenario, Where

PAGE = names.ROOT / "docs" / "measurements" / "faults.md"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m e2e.faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "scenario", nargs="*", help="beginnings of names or families, such as decode (default: all)"
    )
    parser.add_argument("--list", action="store_true", help="print the scenarios and end")
    parser.add_argument("--seeds", type=_seeds, default=(1,), help="such as 1-20 or 3 (default: 1)")
    parser.add_argument("--where", choices=[str(where) for where in Where], help="only these")
    parser.add_argument("--quick", action="store_true", help="the short form only")
    parser.add_argument("--again", action="store_true", help="play what is known again too")
    parser.add_argument(
        "--folder", type=Path, default=runner.RESULTS, help="where results are kept"
    )
    parser.add_argument("--table", action="store_true", help=f"only write {PAGE.name} from results")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="random faults under load")
    parser.add_argument("--rate", type=float, default=2.0, help="requests/s of a soak")
    parser.add_argument(
        "--every", type=float, default=60.0, help="seconds between faults of a soak"
    )
    return parser


def _seeds(text: str) -> tuple[int, ...]:
    first, _, last = text.partition("-")
    return tuple(range(int(first), int(last or first) + 1))


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the chosen scenarios, or write the page."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        scenarios = [
            each
            for each in chosen(options.scenario)
            if options.where in (None, each.where) and (each.quick or not options.quick)
        ]
    except ValueError as error:
        parser.error(str(error))
    if options.list:
        print("\n".join(_listed(each) for each in scenarios))
        return 0
    if options.table:
        return write_table(options.folder)
    if options.soak is not None:
        return _soak(options)
    results = runner.run(
        scenarios,
        seeds=options.seeds,
        code=runner.code_now(),
        tell=_tell,
        folder=options.folder,
        again=options.again,
    )
    on_kind.close_ground()
    held = sum(result.holds for result in results)
    print(f"{held} of {len(results)} runs hold; `python -m e2e.faults --table` writes {PAGE.name}")
    return 0 if held == len(results) else 1


def write_table(folder: Path) -> int:
    """Write the page from the known results."""
    results = runner.all_results(folder)
    page = table.page(SCENARIOS, results, command="make faults", sequences=SEQUENCES)
    PAGE.write_text(page + soak.section(folder))
    print(f"wrote {PAGE} from {len(results)} runs")
    return 0


def _soak(options: argparse.Namespace) -> int:
    summary = soak.run(
        minutes=options.soak,
        rate_rps=options.rate,
        every_s=options.every,
        seed=options.seeds[0],
        code=runner.code_now(),
        folder=options.folder,
        tell=_tell,
    )
    on_kind.close_ground()
    print(summary.to_json())
    return 0 if summary.holds else 1


def _listed(scenario: Scenario) -> str:
    return f"{scenario.family:20} {scenario.where:10} {scenario.name:26} {scenario.what}"


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
