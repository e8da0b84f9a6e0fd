"""Sixteen cases to check a change of the core in minutes, not hours.

The first is the issue's own, to the request. The next ten stand for unseen cases that are kept
apart, with seeds of their own. The others add what those leave out.
"""

from benchmarks.promise.cases import Case
from benchmarks.promise.traffic import Family, Traffic
from tandem_operator.sim.traces.generate import Lengths, Mix

SIGMA = 0.6
SPAN_S = 2400.0


def mix(prompt: float, output: float) -> Mix:
    """Return lognormal lengths around these medians."""
    return Mix(Lengths(prompt, SIGMA), Lengths(output, SIGMA))


CHAT = mix(2500, 250)
SHORT = mix(2500, 60)
TERSE = mix(2000, 100)
CODE = mix(2000, 30)


def _jumps(
    low: float,
    high: float,
    seed: int,
    *,
    calm_s: float,
    rush_s: float = 150.0,
    lengths: Mix = CHAT,
    span_s: float = SPAN_S,
) -> Traffic:
    return Traffic(Family.MMPP, low, high, span_s, seed, lengths, period_s=calm_s, lasts_s=rush_s)


def _wave(seed: int, at_s: float, period_s: float) -> Traffic:
    """Return 6 to 40 requests/s, and 1.8 times as many for a minute."""
    return Traffic(
        Family.BURST,
        6.0,
        40.0,
        SPAN_S,
        seed,
        CHAT,
        period_s=period_s,
        lasts_s=60.0,
        at_s=at_s,
        times=1.8,
    )


def _level(
    family: Family,
    low: float,
    high: float,
    seed: int,
    *,
    period_s: float | None = None,
    at_s: float = 0.0,
) -> Traffic:
    return Traffic(family, low, high, SPAN_S, seed, CHAT, period_s=period_s, at_s=at_s)


QUICK = (
    Case("mmpp-issue", _jumps(8, 40, 1, calm_s=360, rush_s=300, span_s=1800), 0.95),
    Case("jumps-8-40", _jumps(8, 40, 3, calm_s=480, rush_s=400), 0.95),
    Case("jumps-4-50", _jumps(4, 50, 11, calm_s=240), 0.99),
    Case("jumps-2-60-short", _jumps(2, 60, 12, calm_s=180, lengths=SHORT), 0.95),
    Case("jumps-3-45", _jumps(3, 45, 13, calm_s=60, rush_s=60, lengths=TERSE), 0.99),
    Case("spikes-code", Traffic(Family.SPIKES, 0.2, 60, 3600, 14, CODE), 0.99),
    Case("poisson", _level(Family.POISSON, 25, 25, 15), 0.99),
    Case("sine-12m", _level(Family.SINE, 6, 40, 16, period_s=720.0), 0.99),
    Case("wave-crest", _wave(17, 1500, 600), 0.95, event_s=1500),
    Case("wave-fall", _wave(18, 1720, 720), 0.95, event_s=1720),
    Case("wave-trough", _wave(19, 1260, 420), 0.95, event_s=1260),
    Case("jumps-cold-180", _jumps(5, 40, 20, calm_s=180, rush_s=120), 0.99, cold_start_s=180),
    Case("jumps-999", _jumps(8, 40, 21, calm_s=180, rush_s=120), 0.999, cold_start_s=30),
    Case("step", _level(Family.STEP, 8, 30, 22, at_s=1200.0), 0.99, event_s=1200),
    Case("agents", Traffic(Family.AGENTS, 0, 0, SPAN_S, 23, mix(2000, 250), scale=150), 0.99),
    Case(
        "longer-answers",
        Traffic(Family.SHIFT, 15, 15, SPAN_S, 24, CHAT, after=mix(2500, 750), at_s=1200.0),
        0.99,
        event_s=1200,
    ),
)
