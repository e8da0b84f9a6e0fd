"""The gain of removing the pod whose cache is worth least: `python -m benchmarks.prefixes.shrinks`.

Each fleet shrinks many times: half of it leaves every ten minutes, or Tandem sizes it.
"""

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

from benchmarks.prefixes.cases import WAYS, setup_of, trace_of
from benchmarks.prefixes.run import COLD_START, LONGER_TPOT, Row, figures
from benchmarks.prefixes.table import table
from benchmarks.told import told
from tandem_operator.core.observation import Observation
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.policy import EPOCH_S, Policy, PolicyAnswer, Tandem
from tandem_operator.sim.simulate import Scenario, Simulation

HALF_S = 300.0
VICTIMS = {False: "least load (before)", True: "least load and worth (live)"}
HEAD = (
    *("trace", "cache", "prefill pods", "victim", "victims", "hit rate"),
    *("computed tokens", "prefill time", "TTFT p95", "attainment"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A fleet that shrinks. `pods`: the prefill pods between which it goes; `None`: Tandem's."""

    trace: str
    times: float
    pods: tuple[int, int] | None
    decode: int = 3


CASES = (
    Case("agents", 1, (4, 2)),
    Case("agents", 1, None, decode=2),
    Case("conversations", 1, (8, 4)),
    Case("conversations", 8, (8, 4)),
)


@dataclass(frozen=True, slots=True)
class ToAndFro:
    """A fleet that has `most` prefill pods for five minutes, then `least` for five, and so on."""

    most: int
    least: int
    decode: int
    name = "to and fro"

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Return the counts of this time."""
        del spec, observation
        is_low = (now_s - EPOCH_S) // HALF_S % 2
        prefill = self.least if is_low else self.most
        return PolicyAnswer({Role.PREFILL: prefill, Role.DECODE: self.decode}, next_tick_s=5.0)


def run(case: Case, *, worth_counts: bool, folder: Path | None) -> Row:
    """Simulate a case with one choice of victims."""
    trace = trace_of(case.trace, folder)
    prefill = 2 if case.pods is None else case.pods[0]
    start = {Role.PREFILL: prefill, Role.DECODE: case.decode}
    policy: Policy = Tandem() if case.pods is None else ToAndFro(*case.pods, case.decode)
    usual = setup_of(trace, WAYS["prefix"], start=start, times=case.times, slo=LONGER_TPOT)
    setup = replace(usual, worth_counts=worth_counts)
    around = Scenario(pools=(setup,), cold_start=COLD_START, seed=1)
    simulation = Simulation(around, {setup.name: policy})
    simulation.run()
    pool = simulation.pool(setup.name)
    pods = (*pool.prefill.pods, *pool.prefill.gone)
    return {
        "trace": case.trace,
        "times": case.times,
        "pods": case.pods,
        "worth_counts": worth_counts,
        **figures(pool.ended, trace, setup.spec.slo),
        "victims": len(pool.prefill.gone),
        "computed": sum(f.request.prompt_tokens - f.cached_tokens for f in pool.ended),
        "busy_s": sum(pod.engine.totals.busy_s for pod in pods),
    }


def shrink_table(rows: Iterable[Row]) -> str:
    """Return the figures as a table; each pair differs by the choice of victims alone."""
    ordered = sorted(rows, key=lambda row: (_case(row), row["worth_counts"]))
    return table(HEAD, _lines(ordered))


def _lines(rows: Iterable[Row]) -> Iterator[list[str]]:
    for _, group in groupby(rows, key=_case):
        pair = list(group)
        yield from (_cells(row, pair[0]) for row in pair)


def _cells(row: Row, before: Mapping[str, float]) -> list[str]:
    return [
        row["trace"],
        f"x {row['times']:g}",
        _pods(row),
        VICTIMS[row["worth_counts"]],
        str(row["victims"]),
        f"{row['hit_rate']:.4f}",
        f"{row['computed'] / before['computed']:.3f}",
        f"{row['busy_s'] / before['busy_s']:.3f}",
        f"{1000 * row['ttft_p95_s']:.0f} ms",
        f"{row['attainment']:.4f}",
    ]


def _case(row: Row) -> tuple[str, float, str]:
    return row["trace"], row["times"], _pods(row)


def _pods(row: Row) -> str:
    return "Tandem" if row["pods"] is None else "{} and {}".format(*row["pods"])


def _run(case: tuple[Case, bool], *, folder: Path | None) -> Row:
    return run(case[0], worth_counts=case[1], folder=folder)


def main() -> None:
    """Print each run as it ends, then the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.prefixes.shrinks",
        description=(__doc__ or "").partition("\n")[0],
    )
    parser.add_argument("--traces", metavar="FOLDER", type=Path, help="where public traces are")
    parser.add_argument("--only", nargs="+", metavar="TRACE", help="these traces alone")
    parser.add_argument("--json", type=Path, help="where each run's figures go")
    parser.add_argument("-j", "--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    cases = [case for case in CASES if options.only is None or case.trace in options.only]
    with get_context("fork").Pool(options.processes, maxtasksperchild=4) as pool:
        jobs = [(case, worth_counts) for case in cases for worth_counts in VICTIMS]
        made = pool.imap_unordered(partial(_run, folder=options.traces), jobs)
        rows = told(made, line=lambda row: " | ".join(_cells(row, row)), path=options.json)
    print(f"\n{shrink_table(rows)}")


if __name__ == "__main__":
    main()
