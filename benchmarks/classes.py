"""Interactive requests and batch on one fleet, with classes and without: `-m benchmarks.classes`.

Both kinds are judged by their own bounds in either case. Virtual time: the same numbers each time.
"""

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.chat_pool import served
from benchmarks.told import told
from tandem_operator.core.slo import DEFAULT_CLASS, Slo, SloClass
from tandem_operator.sim.flight import SimulatedFlight, judge
from tandem_operator.sim.traces.generate import Lengths, Mix, MmppState, constant, mmpp, poisson
from tandem_operator.sim.traces.trace import Trace, joined, of_class

INTERACTIVE, BATCH = "interactive", "batch"
BOUNDS = {INTERACTIVE: Slo(1.0, 0.1, 0.015, 0.99), BATCH: Slo(600.0, 0.0, 0.2, 0.5)}
CLASSES = (
    SloClass(DEFAULT_CLASS, BOUNDS[INTERACTIVE]),
    SloClass(INTERACTIVE, BOUNDS[INTERACTIVE]),
    SloClass(BATCH, BOUNDS[BATCH], guaranteed=False),
)
CHAT = Mix(Lengths(1500, 0.6, 16, 8000), Lengths(200, 0.5, 2, 1000))
DOCUMENTS = Mix(Lengths(3000, 0.8, 16, 16_000), Lengths(400, 0.6, 2, 2000))
SPAN_S = 240.0
# A request that comes at the very end has no time to end.
JUDGED_S = SPAN_S - 30.0


@dataclass(frozen=True, slots=True)
class Load:
    """The load: interactive requests, even or in bursts, and batch."""

    interactive_rps: float
    batch_rps: float
    bursts: bool = False

    def trace(self) -> Trace:
        """Return the requests, each with the name of its class."""
        rate = self.interactive_rps
        if self.bursts:
            # Two thirds of the time at .6 of the mean, one third at 1.8 times the mean.
            states = (MmppState(0.6 * rate, 60.0), MmppState(1.8 * rate, 30.0))
            chat = mmpp("chat", states, span_s=SPAN_S, mix=CHAT, seed=1)
        else:
            chat = poisson("chat", constant(rate), most_rps=rate, span_s=SPAN_S, mix=CHAT, seed=1)
        found = [of_class(chat, INTERACTIVE)]
        if self.batch_rps:
            documents = poisson(
                "batch",
                constant(self.batch_rps),
                most_rps=self.batch_rps,
                span_s=SPAN_S,
                mix=DOCUMENTS,
                seed=2,
            )
            found.append(of_class(documents, BATCH))
        return joined("both", found)


LOADS = {
    "even, interactive alone": Load(45.0, 0.0),
    "even, 1.5 x": Load(45.0, 15.0),
    "bursts, interactive alone": Load(32.0, 0.0, bursts=True),
    "bursts, 1.5 x": Load(32.0, 20.0, bursts=True),
}


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of a load.

    Tokens are per GPU-second, of requests that were good and ended in time.

    Attributes:
        work: prompt and output tokens.
        output: output tokens alone.
    """

    gpus: float
    interactive: float
    interactive_ttft_p99_s: float
    batch: float
    work: float
    output: float


def run(load: Load, *, classes: bool, sized: bool) -> Row:
    """Serve a load by a fixed fleet, or by one that Tandem sizes."""
    trace, slo = load.trace(), BOUNDS[INTERACTIVE]
    report, pool = served(
        trace, slo=slo, patience_s=1.0, classes=CLASSES if classes else (), sized=sized
    )
    gpu_s, ended = sum(report.gpu_seconds.values()), pool.ended
    good = [f for f in ended if _good(f) and (f.end_s or 0.0) <= SPAN_S]
    return Row(
        gpus=gpu_s / report.end_s,
        interactive=_attainment(trace, ended, INTERACTIVE),
        interactive_ttft_p99_s=_p99(ended),
        batch=_attainment(trace, ended, BATCH),
        work=sum(f.request.prompt_tokens + f.made for f in good) / gpu_s,
        output=sum(f.made for f in good) / gpu_s,
    )


def _good(flight: SimulatedFlight) -> bool:
    return judge(flight, BOUNDS[flight.request.slo_class]).good


def _attainment(trace: Trace, ended: list[SimulatedFlight], name: str) -> float:
    asked = sum(r.slo_class == name and r.at_s <= JUDGED_S for r in trace.requests)
    good = sum(
        f.request.slo_class == name and f.request.at_s <= JUDGED_S and _good(f) for f in ended
    )
    return good / asked if asked else 1.0


def _p99(ended: list[SimulatedFlight]) -> float:
    waits = sorted(
        f.ttft_s for f in ended if f.request.slo_class == INTERACTIVE and f.ttft_s is not None
    )
    return waits[int(0.99 * len(waits))]


def rows() -> Iterator[tuple[str, str, str, Row]]:
    """Yield the rows: fleet, load, whether there are classes, and the outcome."""
    for name, load in LOADS.items():
        for classes in (False, True) if load.batch_rps else (False,):
            yield "2P2D", name, "yes" if classes else "no", run(load, classes=classes, sized=False)
    for classes in (False, True):
        name = "even, 1.5 x"
        row = run(LOADS[name], classes=classes, sized=True)
        yield "sized", name, "yes" if classes else "no", row


def main() -> None:
    """Print a table, and write it as JSON too."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.classes", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print("| fleet | load | classes | GPUs | interactive | TTFT p99 | batch | work | output |")
    print("|---|---|---|---|---|---|---|---|---|")
    told(rows(), line=_line, figures=_figures, path=options.json)


def _line(entry: tuple[str, str, str, Row]) -> str:
    fleet, load, classes, row = entry
    batch = f"{row.batch:.3f}" if LOADS[load].batch_rps else ""
    return (
        f"| {fleet} | {load} | {classes} | {row.gpus:.1f} | {row.interactive:.4f}"
        f" | {row.interactive_ttft_p99_s:.2f} s | {batch} | {row.work:,.0f}"
        f" | {row.output:,.0f} |"
    )


def _figures(entry: tuple[str, str, str, Row]) -> dict[str, object]:
    fleet, load, classes, row = entry
    return {"fleet": fleet, "load": load, "classes": classes, **asdict(row)}


if __name__ == "__main__":
    main()
