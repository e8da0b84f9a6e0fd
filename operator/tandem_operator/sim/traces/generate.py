"""The generator of traces: arrivals from a varying rate, lengths from a distribution.

Everything is drawn from one seed; the same arguments give the same trace.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import cos, inf, isfinite, log, pi
from random import Random

from tandem_operator.sim.traces.trace import BLOCK_TOKENS, Trace, TraceRequest, in_order

Rate = Callable[[float], float]
DAY_S = 86_400.0
HIGHEST_WAVE = 0.9


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lognormal token counts around a median, clipped. A sigma of zero always gives the median."""

    median: float
    sigma: float = 0.0
    least: int = 1
    most: int = 1_000_000

    def __post_init__(self) -> None:
        finite = isfinite(self.median) and isfinite(self.sigma)
        at_least = self.median >= 1.0 and self.sigma >= 0.0
        if not (finite and at_least and 1 <= self.least <= self.most):
            raise ValueError(
                "lengths need a median of at least 1, a sigma of at least 0 and least <= most"
            )

    def draw(self, random: Random) -> int:
        """Return one length."""
        value = random.lognormvariate(log(self.median), self.sigma) if self.sigma else self.median
        return min(self.most, max(self.least, int(value)))


@dataclass(frozen=True, slots=True)
class Mix:
    """Prompt and output lengths, drawn independently."""

    prompt: Lengths
    output: Lengths


def constant(rate_rps: float) -> Rate:
    """Return a rate that never changes."""
    return lambda _: rate_rps


def ramp(start_rps: float, end_rps: float, *, begin_s: float, end_s: float) -> Rate:
    """Return a straight line from one rate to another, level before and after."""

    def rate(at_s: float) -> float:
        share = (at_s - begin_s) / max(1e-9, end_s - begin_s)
        return start_rps + (end_rps - start_rps) * min(1.0, max(0.0, share))

    return rate


def step(before_rps: float, after_rps: float, *, at_s: float) -> Rate:
    """Return one rate before a moment, and another from then on."""
    return lambda now_s: after_rps if now_s >= at_s else before_rps


def sine(low_rps: float, high_rps: float, *, period_s: float) -> Rate:
    """Return a wave that begins at its lowest value.

    Raises:
        ValueError: a period that is not above 0.
    """
    _above_zero("a wave", period_s=period_s)
    mean, swing = (high_rps + low_rps) / 2.0, (high_rps - low_rps) / 2.0
    return lambda at_s: mean - swing * cos(2.0 * pi * at_s / period_s)


def burst(rate: Rate, *, factor: float, begin_s: float, end_s: float) -> Rate:
    """Return another rate times `factor` for a while."""
    return lambda at_s: rate(at_s) * (factor if begin_s <= at_s < end_s else 1.0)


def diurnal(night_rps: float, day_rps: float, *, day_s: float = DAY_S) -> Rate:
    """Return a day: least before dawn, a steep morning, a plateau until the evening.

    Raises:
        ValueError: a day that is not above 0.
    """
    _above_zero("a day", day_s=day_s)

    def rate(at_s: float) -> float:
        hour = 24.0 * (at_s % day_s) / day_s
        wave = 0.5 - 0.5 * cos(2.0 * pi * (hour - 4.0) / 24.0)
        second = 0.15 * cos(4.0 * pi * (hour - 10.5) / 24.0)
        return night_rps + (day_rps - night_rps) * min(
            1.0, max(0.0, (wave + second) / HIGHEST_WAVE)
        )

    return rate


def poisson(name: str, rate: Rate, *, most_rps: float, span_s: float, mix: Mix, seed: int) -> Trace:
    """Return arrivals of a Poisson process with a varying rate, thinned from one of `most_rps`.

    Raises:
        ValueError: a rate that is negative or above `most_rps`, or no time at all.
    """
    _above_zero("a trace", most_rps=most_rps, span_s=span_s)
    random = Random(seed)

    def arrivals() -> Iterator[TraceRequest]:
        at_s = random.expovariate(most_rps)
        while at_s <= span_s:
            now_rps = rate(at_s)
            if not 0.0 <= now_rps <= most_rps * (1.0 + 1e-9):
                raise ValueError(
                    f"rate at {at_s:g} s is {now_rps:g}, outside 0 to most_rps={most_rps:g}"
                )
            if random.random() < now_rps / most_rps:
                yield _request(at_s, mix, random)
            at_s += random.expovariate(most_rps)

    return Trace(name=name, requests=tuple(arrivals()))


@dataclass(frozen=True, slots=True)
class MmppState:
    """A rate that holds for an exponential time."""

    rate_rps: float
    mean_s: float

    def __post_init__(self) -> None:
        _above_zero("a state", mean_s=self.mean_s)
        if not (isfinite(self.rate_rps) and self.rate_rps >= 0.0):
            raise ValueError(f"a state needs a rate of at least 0; got {self.rate_rps:g}")


def mmpp(name: str, states: tuple[MmppState, ...], *, span_s: float, mix: Mix, seed: int) -> Trace:
    """Return a Poisson process whose rate jumps at random between states, never to the same one.

    Raises:
        ValueError: fewer than two states, or no time at all.
    """
    _above_zero("a trace", span_s=span_s)
    if len(states) < 2:
        raise ValueError(f"a modulated process needs at least 2 states; got {len(states)}")
    random = Random(seed)
    requests: list[TraceRequest] = []
    now_s, current = 0.0, 0
    while now_s < span_s:
        state = states[current]
        end_s = min(span_s, now_s + random.expovariate(1.0 / state.mean_s))
        at_s = now_s
        while state.rate_rps > 0.0:
            at_s += random.expovariate(state.rate_rps)
            if at_s >= end_s:
                break
            requests.append(_request(at_s, mix, random))
        now_s = end_s
        current = random.choice([i for i in range(len(states)) if i != current])
    return Trace(name=name, requests=tuple(requests))


@dataclass(frozen=True, slots=True)
class Agents:
    """Programs that work in sessions: each call sends all earlier text again, and more.

    Attributes:
        count: number of agents.
        calls: mean number of calls of a session.
        think_s: mean pause between two calls of a session.
        rest_s: mean pause between two sessions of an agent.
        growth_tokens: mean tokens that each call adds to the prompt.
        most_tokens: the longest prompt; a session that exceeds it continues with a new one.
    """

    count: int
    calls: float = 10.0
    think_s: float = 4.0
    rest_s: float = 120.0
    growth_tokens: float = 800.0
    most_tokens: int = 32_000

    def __post_init__(self) -> None:
        _above_zero(
            "agents",
            think_s=self.think_s,
            rest_s=self.rest_s,
            growth_tokens=self.growth_tokens,
            most_tokens=self.most_tokens,
        )
        if not (self.count >= 1 and 1.0 <= self.calls < inf):
            raise ValueError(
                f"agents need a count and calls of at least 1; got {self.count}, {self.calls:g}"
            )


def agents(name: str, kind: Agents, *, span_s: float, mix: Mix, seed: int) -> Trace:
    """Return arrivals of agents that are on and off; prompts of a session share prefix blocks.

    Raises:
        ValueError: no time at all.
    """
    _above_zero("a trace", span_s=span_s)
    random = Random(seed)
    requests: list[TraceRequest] = []
    blocks_used = 0
    for _ in range(kind.count):
        at_s = random.expovariate(1.0 / kind.rest_s)
        while at_s < span_s:
            prompt, first_block = mix.prompt.draw(random), blocks_used
            while at_s < span_s:
                if prompt > kind.most_tokens:
                    prompt = min(kind.most_tokens, mix.prompt.draw(random))
                    first_block = blocks_used
                # Only full blocks: the next prompt has more tokens in the last one than this one
                # computes.
                blocks_used = first_block + prompt // BLOCK_TOKENS
                output = mix.output.draw(random)
                blocks = tuple(range(first_block, blocks_used))
                requests.append(TraceRequest(at_s, prompt, output, blocks))
                if random.random() < 1.0 / kind.calls:
                    break
                prompt += output + int(random.expovariate(1.0 / kind.growth_tokens))
                at_s += random.expovariate(1.0 / kind.think_s)
            at_s += random.expovariate(1.0 / kind.rest_s)
    return Trace(name=name, requests=in_order(requests))


def _request(at_s: float, mix: Mix, random: Random) -> TraceRequest:
    return TraceRequest(at_s, mix.prompt.draw(random), mix.output.draw(random))


def _above_zero(whose: str, **values: float) -> None:
    for name, value in values.items():
        if not (isfinite(value) and value > 0.0):
            raise ValueError(f"{name} of {whose} must be above 0 and finite; got {value:g}")
