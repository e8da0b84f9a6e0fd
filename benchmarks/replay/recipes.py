"""The suite's traces, each made from a seed or from a public trace, the same on every machine."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.replay.traces import Request, Trace, read, scaled

BURST_FACTOR = 1.8
BURST_S = 60.0


def sine_with_burst(
    name: str,
    *,
    seed: int,
    burst_s: float | None,
    period_s: float = 600.0,
    duration_s: float = 1200,
) -> Trace:
    """Trace A: 6 to 40 requests/s over `period_s`, 1.8 times as many for a minute from `burst_s`.

    Poisson by thinning; the draws come in the order of the published recipe, so that its seeds give
    its requests.
    """
    random = Random(seed)
    requests: list[Request] = []
    at_s = 0.0
    while True:
        at_s += random.expovariate(80.0)
        if at_s > duration_s:
            break
        rate_rps = 23.0 - 17.0 * math.cos(2.0 * math.pi * at_s / period_s)
        if burst_s is not None and burst_s <= at_s < burst_s + BURST_S:
            rate_rps *= BURST_FACTOR
        if random.random() < rate_rps / 80.0:
            prompt = min(max(64, int(random.lognormvariate(math.log(2500), 0.6))), 16000)
            output = min(max(8, int(random.lognormvariate(math.log(250), 0.5))), 1200)
            requests.append(Request(int(at_s * 1000.0) / 1000.0, prompt, output))
    return Trace(name, tuple(requests))


def sine(name: str, *, seed: int = 1) -> Trace:
    """Trace B: 5 to 45 requests/s over ten minutes, three times, all requests alike."""
    random = Random(seed)
    requests: list[Request] = []
    at_s = 0.0
    while True:
        at_s += random.expovariate(45.0)
        if at_s > 1800.0:
            break
        if random.random() < (25.0 - 20.0 * math.cos(2.0 * math.pi * at_s / 600.0)) / 45.0:
            requests.append(Request(int(at_s * 1000.0) / 1000.0, 3000, 300))
    return Trace(name, tuple(requests))


def ramp(name: str, *, seed: int, low_rps: float, high_rps: float, duration_s: float) -> Trace:
    """A straight climb in the first half and a straight fall in the second."""
    random = Random(seed)
    requests: list[Request] = []
    at_s = 0.0
    while True:
        at_s += random.expovariate(high_rps)
        if at_s > duration_s:
            break
        share = 1.0 - abs(2.0 * at_s / duration_s - 1.0)
        if random.random() < (low_rps + (high_rps - low_rps) * share) / high_rps:
            prompt = min(max(64, int(random.lognormvariate(math.log(2500), 0.6))), 16000)
            output = min(max(8, int(random.lognormvariate(math.log(250), 0.5))), 1200)
            requests.append(Request(int(at_s * 1000.0) / 1000.0, prompt, output))
    return Trace(name, tuple(requests))


def azure_flat(folder: Path) -> Trace:
    """Four copies of the Azure hour, a quarter of it apart, in a sixth of the time: 133 req/s."""
    hour = read(folder / "azure2023_conv.csv", "azure", rate_scale=1.0, seed=0, hours=0.0)
    copies = scaled(hour, 4.0, seed=0)
    quick = tuple(r._replace(at_s=r.at_s / 6.0) for r in copies.requests)
    return Trace("azure-x4", quick)


def azure_slice(folder: Path, *, start_s: float = 960.0, length_s: float = 1920.0) -> Trace:
    """Half an hour around the peak of the Azure hour, its slope kept: 20 to 32 to 16 req/s.

    Each request stands for four, drawn within 20 s around it.
    """
    hour = read(folder / "azure2023_conv.csv", "azure", rate_scale=1.0, seed=0, hours=0.0)
    random = Random(5)
    requests = [
        r._replace(at_s=max(0.0, r.at_s - start_s + random.uniform(-20.0, 20.0)))
        for r in hour.requests
        for _ in range(4)
        if start_s <= r.at_s < start_s + length_s
    ]
    return Trace("azure-slice", tuple(sorted(requests, key=lambda r: r.at_s)))


def mooncake_spread(folder: Path) -> Trace:
    """The Mooncake hour with its clumps of three seconds spread by a seeded draw."""
    path = folder / "mooncake_conversation_trace.jsonl"
    hour = read(path, "mooncake", rate_scale=1.0, seed=0, hours=0.0)
    random = Random(3)
    spread = [r._replace(at_s=r.at_s + random.uniform(0.0, 3.0)) for r in hour.requests]
    return Trace("mooncake", tuple(sorted(spread, key=lambda r: r.at_s)))


@dataclass(frozen=True, slots=True)
class Recipe:
    """One trace of the suite.

    Attributes:
        kind: what is asked of a policy on it: `jump`, `calm` (varying, no jump) or `flat`.
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
    return Recipe(make, kind, unseen=name.startswith("U"))


SUITE: dict[str, Recipe] = {
    "A": _sine("A", 7, 780.0),
    "A2": _sine("A2", 11, 500.0),
    "A3": _sine("A3", 12, 300.0, 480.0),
    "A4": _sine("A4", 13, None),
    "A5": _sine("A5", 21, 150.0),
    "A6": _sine("A6", 22, 420.0),
    "A7": _sine("A7", 23, 690.0),
    "A8": _sine("A8", 24, 1000.0),
    "U1": _sine("U1", 101, 220.0),
    "U2": _sine("U2", 102, 560.0, 720.0),
    "U3": _sine("U3", 103, 640.0),
    "U4": _sine("U4", 104, 870.0, 520.0),
    "U5": _sine("U5", 105, 1080.0),
    "U6": _sine("U6", 106, None, 540.0),
    "U7": Recipe(
        lambda _: ramp("U7", seed=107, low_rps=4.0, high_rps=36.0, duration_s=1500.0),
        "calm",
        unseen=True,
    ),
    "B": Recipe(lambda _: sine("B"), "calm", ttft_s=0.2, itl_s=0.01, timing="measured"),
    "azure-slice": Recipe(azure_slice, "calm", start=None),
    "azure-x4": Recipe(azure_flat, "flat", start=(5, 3)),
    "mooncake": Recipe(mooncake_spread, "flat", ttft_s=1.5, itl_s=0.05, timing="fp8", start=(3, 1)),
}
