"""The suite's traces, each made from a seed or from a public trace, the same on every machine."""

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

from benchmarks.replay.traces import in_whole_ms, opened
from tandem_operator.sim.traces.generate import Lengths, Mix, burst, poisson, sine
from tandem_operator.sim.traces.readers import TraceFormat
from tandem_operator.sim.traces.trace import Trace, in_order, scaled, sped_up, spread

BURST_FACTOR = 1.8
BURST_S = 60.0
CHAT = Mix(Lengths(2500, 0.6, 64, 16_000), Lengths(250, 0.5, 8, 1200))
ALIKE = Mix(Lengths(3000), Lengths(300))
PERIODS_S = (420.0, 480.0, 540.0, 600.0, 720.0, 840.0)


def sine_with_burst(
    name: str, *, seed: int, burst_s: float | None, period_s: float = 600.0, span_s: float = 1200.0
) -> Trace:
    """Return trace A: 6 to 40 requests/s over `period_s`, 1.8 times that for a minute.

    The minute begins at `burst_s`. The draws come in the order of the published recipe, so that its
    seeds give its requests.
    """
    rate = sine(6.0, 40.0, period_s=period_s)
    if burst_s is not None:
        rate = burst(rate, factor=BURST_FACTOR, begin_s=burst_s, end_s=burst_s + BURST_S)
    return in_whole_ms(poisson(name, rate, most_rps=80.0, span_s=span_s, mix=CHAT, seed=seed))


def sine_alike(name: str, *, seed: int = 1) -> Trace:
    """Return trace B: 5 to 45 requests/s over ten minutes, three times, all requests alike."""
    rate = sine(5.0, 45.0, period_s=600.0)
    return in_whole_ms(poisson(name, rate, most_rps=45.0, span_s=1800.0, mix=ALIKE, seed=seed))


def there_and_back(
    name: str, *, seed: int, low_rps: float, high_rps: float, span_s: float
) -> Trace:
    """Return a straight climb in the first half and a straight fall in the second."""

    def rate(at_s: float) -> float:
        share = 1.0 - abs(2.0 * at_s / span_s - 1.0)
        return low_rps + (high_rps - low_rps) * share

    return in_whole_ms(poisson(name, rate, most_rps=high_rps, span_s=span_s, mix=CHAT, seed=seed))


def azure_hour(folder: Path) -> Trace:
    """Return the public hour of Azure's conversations."""
    return opened(folder / "azure2023_conv.csv", TraceFormat.AZURE)


def azure_flat(folder: Path, *, copies: float = 4.0) -> Trace:
    """Return copies of the Azure hour, evenly apart, in a sixth of the time; four: 133 req/s."""
    laid = sped_up(scaled(azure_hour(folder), copies), 6.0)
    return in_whole_ms(replace(laid, name=f"azure-x{copies:g}"))


def azure_slice(folder: Path, *, start_s: float = 960.0, length_s: float = 1920.0) -> Trace:
    """Return half an hour around the peak of the Azure hour, its slope kept: 20 to 32 to 16 req/s.

    Each request stands for four, drawn within 20 s around it.
    """
    random = Random(5)
    requests = in_order(
        replace(r, at_s=max(0.0, r.at_s - start_s + random.uniform(-20.0, 20.0)))
        for r in azure_hour(folder).requests
        for _ in range(4)
        if start_s <= r.at_s < start_s + length_s
    )
    return in_whole_ms(Trace("azure-slice", requests))


def mooncake_spread(folder: Path) -> Trace:
    """Return the Mooncake hour with its clumps of three seconds spread by a seeded draw."""
    hour = opened(folder / "mooncake_conversation_trace.jsonl", TraceFormat.MOONCAKE)
    return in_whole_ms(replace(spread(hour, 3.0, seed=3), name="mooncake"))


@dataclass(frozen=True, slots=True)
class Recipe:
    """One trace of the suite.

    Attributes:
        kind: the demand on a policy: `jump`, `calm` (varying, no jump) or `flat`.
        unseen: whether it was made after the parameters were fixed.
        start: the fleet at the beginning, for every policy; `None`: fitted to the first minute.
    """

    make: Callable[[Path], Trace]
    kind: str
    ttft_s: float = 0.5
    itl_s: float = 0.02
    timing: str = "bf16"
    unseen: bool = False
    start: tuple[int, int] | None = (2, 1)


def _sine(name: str, seed: int, burst_s: float | None, period_s: float = 600.0) -> Recipe:
    def make(_folder: Path) -> Trace:
        return sine_with_burst(name, seed=seed, burst_s=burst_s, period_s=period_s)

    kind = "calm" if burst_s is None else "jump"
    return Recipe(make, kind, unseen=not name.startswith("A"))


def _drawn(count: int, *, seed: int) -> Iterator[tuple[str, Recipe]]:
    """Yield waves with a burst at any moment: on a crest, a climb, a fall or in a trough."""
    random = Random(seed)
    for number in range(1, count + 1):
        period_s, burst_s = random.choice(PERIODS_S), random.uniform(90.0, 1110.0)
        name = f"V{number}"
        yield name, _sine(name, 700 + number, float(round(burst_s)), period_s)


# The most telling first.
SUITE: dict[str, Recipe] = {
    "A": _sine("A", 7, 780.0),
    "A4": _sine("A4", 13, None),
    "A5": _sine("A5", 21, 150.0),
    "B": Recipe(lambda _: sine_alike("B"), "calm", ttft_s=0.2, itl_s=0.01, timing="measured"),
    "azure-slice": Recipe(azure_slice, "calm", start=None),
    "A3": _sine("A3", 12, 300.0, 480.0),
    "A7": _sine("A7", 23, 690.0),
    "U1": _sine("U1", 101, 220.0),
    "U4": _sine("U4", 104, 870.0, 520.0),
    "azure-x4": Recipe(azure_flat, "flat", start=(5, 3)),
    "mooncake": Recipe(mooncake_spread, "flat", ttft_s=1.5, itl_s=0.05, timing="fp8", start=(3, 1)),
    "A2": _sine("A2", 11, 500.0),
    "A6": _sine("A6", 22, 420.0),
    "A8": _sine("A8", 24, 1000.0),
    "U2": _sine("U2", 102, 560.0, 720.0),
    "U3": _sine("U3", 103, 640.0),
    "U5": _sine("U5", 105, 1080.0),
    "U6": _sine("U6", 106, None, 540.0),
    "U7": Recipe(
        lambda _: there_and_back("U7", seed=107, low_rps=4.0, high_rps=36.0, span_s=1500.0),
        "calm",
        unseen=True,
    ),
}

# Drawn once, beside the suite, for what the suite's own choice of moments may hide.
DRAWN: dict[str, Recipe] = dict(_drawn(16, seed=20261122))
# Beside azure-x4, for how much of what a policy reaches there is that very rate.
NEAR_X4: dict[str, Recipe] = {
    f"azure-x{copies:g}": Recipe(partial(azure_flat, copies=copies), "flat", start=(5, 3))
    for copies in (3.6, 3.7, 3.8, 3.9, 4.1, 4.2, 4.3, 4.4)
}
RECIPES = SUITE | DRAWN | NEAR_X4


def add_trace_options(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Add `--only` for some of these or the drawn traces, and `--drawn` for all drawn ones."""
    choices = (*names, *DRAWN)
    parser.add_argument("--only", nargs="+", choices=choices, help="these traces alone")
    parser.add_argument(
        "--drawn",
        action="store_const",
        const=list(DRAWN),
        dest="only",
        help=f"the {len(DRAWN)} traces with a jump at a moment drawn at random alone",
    )
