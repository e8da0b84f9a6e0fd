"""The sample: 120 cases over all factors, in which each level of each factor meets all others.

Per kind of traffic nine cases, by the orthogonal array of four factors of three levels: of any two
factors each pair of levels comes once. Which level is which is drawn anew per kind and sample.
Recorded traffic has four cases per source.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from random import Random

from benchmarks.promise.cases import LEARNING_S, Case, Slo, demand, manifest
from benchmarks.promise.traffic import Family, Traffic, rate_of, requests_of
from tandem_operator.api import parse_pool
from tandem_operator.cli.input.case import spec_of
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.traces.generate import Lengths, Mix
from tandem_operator.sim.traces.spikes import Spikes
from tandem_operator.sim.traces.trace import Trace, TraceRequest

# Three levels of four factors in nine rows, any two columns of which hold each pair once.
ARRAY = (
    *((0, 0, 0, 0), (0, 1, 1, 1), (0, 2, 2, 2)),
    *((1, 0, 1, 2), (1, 1, 2, 0), (1, 2, 0, 1)),
    *((2, 0, 2, 1), (2, 1, 0, 2), (2, 2, 1, 0)),
)
COLD_STARTS_S = (30.0, 60.0, 180.0)
TARGETS = (0.95, 0.99, 0.999)
REPLICAS = (1.0, 3.0, 12.0)
SIGMA = 0.6
# Larger fleets serve longer requests, so that an hour stays below 100,000 of them.
LENGTHS = {1.0: (2500.0, 250.0), 3.0: (5000.0, 500.0), 12.0: (10_000.0, 1000.0)}
SPAN_S = 2700.0
LAST_S = 600.0
DRAWS = 2000
# Most recorded requests are short: of more replicas there would be too many.
RECORDED_REPLICAS = {
    Family.AZURE: (1.0, 2.0),
    Family.MOONCAKE: (1.0, 3.0),
    Family.SERVEGEN: (0.5, 1.0),
}
HOUR_S = 3600.0
RECORDED_SPANS_S = {Family.AZURE: 2700.0, Family.MOONCAKE: HOUR_S, Family.SERVEGEN: 2100.0}
# It has a thousand requests a second: of that much the need is measured.
SERVEGEN_SHARE, SERVEGEN_HOURS = 0.002, 3
# Prompts of a hundred thousand tokens take longer than a chat may wait.
RECORDED_SLO = Slo(ttft_s=1.0, per_thousand_s=0.2, tpot_s=0.03)


def sample(number: int, folder: Path | None) -> tuple[Case, ...]:
    """Return all cases of a sample; without the folder of public traces, only made traffic."""
    made = [case for kind in KINDS for case in _nine(kind, number)]
    recorded = (
        [] if folder is None else [c for f in RECORDED_REPLICAS for c in _four(f, number, folder)]
    )
    return (*made, *recorded)


def _nine(kind: str, number: int) -> Iterator[Case]:
    random = Random(f"{kind} of sample {number}")
    orders = [random.sample(range(3), 3) for _ in range(4)]
    for row, levels in enumerate(ARRAY):
        cold, target, size, shape = (
            order[level] for order, level in zip(orders, levels, strict=True)
        )
        replicas = REPLICAS[size]
        if kind == "spikes":
            # A spike is nine times the mean: of 12 it would need more than any pool's bounds.
            replicas /= 3.0
        seed = random.randrange(1, 10**6)
        traffic = _sized(KINDS[kind](shape, _mix(*LENGTHS[REPLICAS[size]]), seed, random), replicas)
        yield Case(
            name=f"{kind}-{row + 1}",
            traffic=traffic,
            target=TARGETS[target],
            cold_start_s=COLD_STARTS_S[cold],
            replicas=replicas,
            scored_s=max(LEARNING_S, traffic.period_s or 0.0)
            if traffic.family in (Family.SINE, Family.DAY)
            else LEARNING_S,
            event_s=traffic.at_s if traffic.at_s > 0.0 else None,
        )


def _four(family: Family, number: int, folder: Path) -> Iterator[Case]:
    random = Random(f"{family} of sample {number}")
    for row in range(4):
        span_s, seed = RECORDED_SPANS_S[family], random.randrange(1, 10**6)
        # Its lengths are its own.
        traffic = Traffic(family, 0.0, 0.0, span_s, seed, _mix(1000.0, 100.0))
        if family is Family.SERVEGEN:
            at_s = HOUR_S * random.randrange(SERVEGEN_HOURS)
            traffic = replace(traffic, at_s=at_s, scale=SERVEGEN_SHARE)
        replicas = RECORDED_REPLICAS[family][row % 2]
        yield Case(
            name=f"{family}-{row + 1}",
            traffic=traffic.sized(replicas / _recorded_need(traffic, folder)),
            target=TARGETS[random.randrange(3)],
            cold_start_s=COLD_STARTS_S[random.randrange(3)],
            replicas=replicas,
            slo=RECORDED_SLO,
        )


def _mix(prompt: float, output: float) -> Mix:
    return Mix(Lengths(prompt, SIGMA), Lengths(output, SIGMA))


def _poisson(_shape: int, mix: Mix, seed: int, _random: Random) -> Traffic:
    return Traffic(Family.POISSON, 1.0, 1.0, SPAN_S, seed, mix)


def _mmpp(high: float, part: float) -> Callable[[int, Mix, int, Random], Traffic]:
    def made(shape: int, mix: Mix, seed: int, _random: Random) -> Traffic:
        """Return calms of one, three and ten minutes, at least some of each after the first 15."""
        calm_s, span_s = ((60.0, SPAN_S), (180.0, 3600.0), (600.0, 6300.0))[shape]
        return Traffic(
            Family.MMPP, 1.0, high, span_s, seed, mix, period_s=calm_s, lasts_s=part * calm_s
        )

    return made


def _spikes(_shape: int, mix: Mix, seed: int, _random: Random) -> Traffic:
    return Traffic(Family.SPIKES, 0.0, 1.0, 3600.0, seed, mix)


def _agents(_shape: int, mix: Mix, seed: int, _random: Random) -> Traffic:
    # Prompts grow by themselves.
    first = replace(mix, prompt=Lengths(2000.0, SIGMA))
    return Traffic(Family.AGENTS, 0.0, 0.0, SPAN_S, seed, first, scale=40.0)


def _sine(shape: int, mix: Mix, seed: int, _random: Random) -> Traffic:
    period_s = (600.0, 1200.0, 1800.0)[shape]
    return Traffic(Family.SINE, 1.0, 6.0, SPAN_S + period_s, seed, mix, period_s=period_s)


def _day(shape: int, mix: Mix, seed: int, _random: Random) -> Traffic:
    period_s = (1200.0, 1800.0, 2400.0)[shape]
    return Traffic(Family.DAY, 1.0, 8.0, 2.5 * period_s, seed, mix, period_s=period_s)


def _event_s(random: Random) -> float:
    return float(round(random.uniform(LEARNING_S + 60.0, SPAN_S - LAST_S)))


def _step(shape: int, mix: Mix, seed: int, random: Random) -> Traffic:
    return Traffic(
        Family.STEP, 1.0, (2.0, 3.0, 5.0)[shape], SPAN_S, seed, mix, at_s=_event_s(random)
    )


def _ramp(shape: int, mix: Mix, seed: int, random: Random) -> Traffic:
    lasts_s = (120.0, 300.0, 600.0)[shape]
    return Traffic(Family.RAMP, 1.0, 4.0, SPAN_S, seed, mix, lasts_s=lasts_s, at_s=_event_s(random))


def _burst(shape: int, mix: Mix, seed: int, random: Random) -> Traffic:
    """Return a burst on a level rate, on the crest of a wave, or anywhere on one."""
    high, period_s, at_s = 4.0, 1200.0, _event_s(random)
    level = Traffic(Family.BURST, 2.0, 2.0, SPAN_S, seed, mix, lasts_s=120.0, times=2.5, at_s=at_s)
    if shape == 0:
        return level
    wave = replace(level, low_rps=1.0, high_rps=high, period_s=period_s, times=1.8)
    return replace(wave, at_s=1.5 * period_s - 60.0) if shape == 1 else wave


def _shift(*, prompts: bool) -> Callable[[int, Mix, int, Random], Traffic]:
    def made(shape: int, mix: Mix, seed: int, random: Random) -> Traffic:
        times = (0.4, 2.0, 3.0)[shape]
        one = mix.prompt if prompts else mix.output
        other = replace(one, median=one.median * times)
        after = replace(mix, prompt=other) if prompts else replace(mix, output=other)
        return Traffic(
            Family.SHIFT, 1.0, 1.0, SPAN_S, seed, mix, after=after, at_s=_event_s(random)
        )

    return made


KINDS: dict[str, Callable[[int, Mix, int, Random], Traffic]] = {
    "poisson": _poisson,
    "mmpp": _mmpp(5.0, 0.5),
    "mmpp-high": _mmpp(10.0, 0.25),
    "spikes": _spikes,
    "agents": _agents,
    "sine": _sine,
    "day": _day,
    "step": _step,
    "ramp": _ramp,
    "burst": _burst,
    "shift-prompts": _shift(prompts=True),
    "shift-answers": _shift(prompts=False),
}


def _sized(traffic: Traffic, replicas: float) -> Traffic:
    """Return the traffic at a load that keeps so many replicas fully busy in the mean."""
    if traffic.family is Family.AGENTS:
        return traffic.sized(replicas / _agents_need(traffic))
    before_s = traffic.at_s if traffic.after is not None else traffic.span_s
    share = before_s / traffic.span_s
    each = share * _cost(traffic.mix) + (1.0 - share) * _cost(traffic.after or traffic.mix)
    return traffic.sized(replicas / (mean_rps(traffic) * each))


def mean_rps(traffic: Traffic) -> float:
    """Expected requests per second over the span."""
    if traffic.family is Family.MMPP:
        calm_s, rush_s = traffic.period_s or 0.0, traffic.lasts_s
        in_calm, in_rush = traffic.low_rps * calm_s, traffic.high_rps * rush_s
        return (in_calm + in_rush) / (calm_s + rush_s)
    if traffic.family is Family.SPIKES:
        return Spikes(traffic.low_rps, traffic.high_rps).mean_rps
    if traffic.family is Family.SHIFT:
        return traffic.low_rps
    rate = rate_of(traffic)
    return sum(rate(float(second)) for second in range(int(traffic.span_s))) / int(traffic.span_s)


@lru_cache(maxsize=64)
def _cost(mix: Mix) -> float:
    """Return replica-seconds of a request, of both roles together."""
    random = Random(1)
    drawn = [
        TraceRequest(float(at), mix.prompt.draw(random), mix.output.draw(random))
        for at in range(1, DRAWS + 1)
    ]
    # One a second, so that what a second needs is what one needs.
    return sum(demand(Trace("draws", tuple(drawn)), _spec(Slo())).values())


@lru_cache(maxsize=16)
def _agents_need(traffic: Traffic) -> float:
    return sum(demand(requests_of(traffic, None), _spec(Slo())).values())


@lru_cache(maxsize=16)
def _recorded_need(traffic: Traffic, folder: Path) -> float:
    return sum(demand(requests_of(traffic, folder), _spec(RECORDED_SLO)).values())


@lru_cache(maxsize=4)
def _spec(slo: Slo) -> PoolSpec:
    return spec_of(parse_pool(manifest(slo, TARGETS[0]), strict=True))
