"""`python -m benchmarks.router.paired OTHER`: our router beside that of another checkout, in turns.

A machine that others use too changes from minute to minute, so short windows take turns, each round
in another order, and each is compared with those of its own round. What counts is CPU time per
token: a process that waits for a core uses none.
"""

import argparse
import contextlib
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.router import generator
from benchmarks.router.__main__ import measure
from benchmarks.router.cores import Cores
from benchmarks.router.generator import Load
from benchmarks.router.report import Spread
from benchmarks.router.targets import Target, tandem_router, upstream

LOADS = {
    "1 stream": Load(streams=1, tokens=20, gap_s=0.005, ramp_s=0.3, window_s=2.0),
    "100 streams": Load(streams=100, tokens=40, gap_s=0.1, ramp_s=4.0, window_s=4.0),
    "1000 streams": Load(streams=1000, tokens=20, gap_s=0.25, ramp_s=5.0, window_s=5.0),
    "flood": Load(streams=100, tokens=500, gap_s=0.0004, ramp_s=1.0, window_s=3.0),
}
_OURS = "here"

Round = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Checkout:
    """A tree of the project with its own `.venv`."""

    name: str
    python: Path


def rounds(
    label: str, load: Load, checkouts: list[Checkout], *, count: int, program: Path, folder: Path
) -> list[Round]:
    """Return the figures of each round, by checkout."""
    cores, done = Cores.here(), list[Round]()
    for number in range(count):
        turn = number % len(checkouts)
        figures: Round = {}
        with contextlib.ExitStack() as running:
            engine = running.enter_context(upstream(program, folder, cores=cores))
            targets: dict[str, Target] = {}
            for checkout in checkouts:
                own = folder / checkout.name
                own.mkdir(parents=True, exist_ok=True)
                router = tandem_router(engine, own, cores=cores, python=checkout.python)
                targets[checkout.name] = running.enter_context(router)
            for checkout in checkouts[turn:] + checkouts[:turn]:
                figures[checkout.name] = measure(
                    load, targets[checkout.name], program=program, cores=cores
                )
        done.append(figures)
        shown = "  ".join(
            f"{name} {figure['tokens_per_core_s']:.0f} tokens/s/core"
            f" p50 {figure['ttft_p50_ms']:.2f} ms"
            for name, figure in figures.items()
        )
        print(f"round {number + 1}/{count}  {label:12} {shown}", flush=True)
    return done


def table(done: dict[str, list[Round]], *, base: str) -> str:
    """Return medians with their ranges, and the median of each round's own ratio to `base`."""
    lines = [
        f"| load | checkout | tokens/s per core | against {base} | TTFT p50, ms | against {base} |",
        "|---|---|---|---|---|---|",
    ]
    for label, each in done.items():
        for name in each[0]:
            cells = [label, name]
            for key, digits in (("tokens_per_core_s", 0), ("ttft_p50_ms", 2)):
                cells.append(Spread.of([one[name][key] for one in each]).text(digits=digits))
                ratios = [one[name][key] / one[base][key] - 1 for one in each]
                low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
                cells.append(f"{middle:+.1%} (middle half {low:+.1%}..{high:+.1%})")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.router.paired", description=__doc__)
    parser.add_argument("others", nargs="+", type=Path, metavar="OTHER", help="the first is base")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--load", action="append", choices=LOADS, help="only these")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/router/paired"))
    arguments = parser.parse_args()
    checkouts = [
        *(Checkout(path.name, path / ".venv/bin/python") for path in arguments.others),
        Checkout(_OURS, Path(sys.executable)),
    ]
    arguments.out.mkdir(parents=True, exist_ok=True)
    program, done = generator.build(), dict[str, list[Round]]()
    for label in arguments.load or LOADS:
        done[label] = rounds(
            label,
            LOADS[label],
            checkouts,
            count=arguments.rounds,
            program=program,
            folder=arguments.out,
        )
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "paired.json").write_text(json.dumps(done, indent=2) + "\n")
    print(table(done, base=checkouts[0].name))


if __name__ == "__main__":
    main()
