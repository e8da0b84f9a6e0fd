"""One class in an overload, with `whenLate: Serve` and `Refuse`: `-m benchmarks.when_late`.

Virtual time: the same numbers each time.
"""

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.chat_pool import served
from benchmarks.classes import BOUNDS, INTERACTIVE, JUDGED_S, LOADS
from benchmarks.told import told
from tandem_operator.core.slo import DEFAULT_CLASS, SloClass
from tandem_operator.sim.flight import SimulatedFlight, judge
from tandem_operator.sim.traces.trace import Trace
from tandem_routing.verdict import Ending

SLO = BOUNDS[INTERACTIVE]


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one run; shares are those of all requests, unless they say of which.

    Attributes:
        accepted: share of good requests among those that were not refused.
        false: refused requests that were good where all were served.
    """

    gpus: float
    requests: int
    good: float
    accepted: float
    refused: int
    false: int


def run(trace: Trace, *, refuse: bool, sized: bool) -> tuple[float, list[SimulatedFlight]]:
    """Serve a load; return the mean number of GPUs, and the requests that are judged."""
    classes = (SloClass(DEFAULT_CLASS, SLO, refuse_late=refuse),)
    report, pool = served(trace, slo=SLO, patience_s=120.0, classes=classes, sized=sized)
    judged = [flight for flight in pool.ended if flight.request.at_s <= JUDGED_S]
    return sum(report.gpu_seconds.values()) / report.end_s, judged


def compared(trace: Trace, *, sized: bool) -> tuple[Row, Row]:
    """Return the outcome with `Serve`, and with `Refuse`."""
    asked = sum(request.at_s <= JUDGED_S for request in trace.requests)
    gpus, without = run(trace, refuse=False, sized=sized)
    with_refusals, found = run(trace, refuse=True, sized=sized)
    good = {flight.number for flight in without if judge(flight, SLO).good}
    return (
        _row(gpus, asked, without, good),
        _row(with_refusals, asked, found, good),
    )


def _row(gpus: float, asked: int, ended: list[SimulatedFlight], served_well: set[int]) -> Row:
    good = sum(judge(flight, SLO).good for flight in ended)
    refused = {flight.number for flight in ended if flight.ending is Ending.TOO_LATE}
    return Row(
        gpus=gpus,
        requests=asked,
        good=good / asked,
        accepted=good / (asked - len(refused)),
        refused=len(refused),
        false=len(refused & served_well),
    )


def loads() -> dict[str, Trace]:
    """Return the loads by name: those of `benchmarks.classes`, with one class for all requests."""
    return {
        name: replace(trace, requests=tuple(replace(each, slo_class="") for each in trace.requests))
        for name in ("even, 1.5 x", "bursts, 1.5 x")
        for trace in (LOADS[name].trace(),)
    }


def rows() -> Iterator[tuple[str, str, str, Row]]:
    """Yield all of them: fleet, load, and the value of `whenLate`."""
    for fleet in ("2P2D", "sized"):
        for load, trace in loads().items():
            outcomes = compared(trace, sized=fleet == "sized")
            for when_late, row in zip(("Serve", "Refuse"), outcomes, strict=True):
                yield fleet, load, when_late, row


def main() -> None:
    """Print a table, and write it as JSON too."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.when_late", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(
        "| fleet | load | whenLate | GPUs | requests | good | good of accepted | refused | false |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    told(rows(), line=_line, figures=_figures, path=options.json)


def _line(entry: tuple[str, str, str, Row]) -> str:
    fleet, load, when_late, row = entry
    return (
        f"| {fleet} | {load} | {when_late} | {row.gpus:.1f} | {row.requests:,}"
        f" | {row.good:.4f} | {row.accepted:.4f} | {row.refused:,} | {row.false:,} |"
    )


def _figures(entry: tuple[str, str, str, Row]) -> dict[str, object]:
    fleet, load, when_late, row = entry
    return {"fleet": fleet, "load": load, "whenLate": when_late, **asdict(row)}


if __name__ == "__main__":
    main()
