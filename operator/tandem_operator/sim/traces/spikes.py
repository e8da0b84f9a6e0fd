"""The generator of traces with sudden changes: spikes out of silence, or other lengths.

Everything is drawn from one seed; the same arguments give the same trace.
"""

from dataclasses import dataclass, replace
from math import exp, isfinite, log
from random import Random

from tandem_operator.sim.traces.generate import Mix, constant, poisson
from tandem_operator.sim.traces.trace import Trace, TraceRequest

# Heights have a finite mean and variance, and one in 25 is more than twice the mean.
HEIGHT_ALPHA = 2.5
MOST_HEIGHT = 4.0


@dataclass(frozen=True, slots=True)
class Spikes:
    """Spikes that begin and end at once, with hardly anything between them.

    Attributes:
        calm_rps: the rate between spikes; it may be 0.
        height_rps: mean rate of a spike. Heights are Pareto, at most four times this.
        silence_s: shortest and longest time between two spikes, evenly drawn on a log scale.
        spike_s: shortest and longest spike, evenly drawn.
    """

    calm_rps: float
    height_rps: float
    silence_s: tuple[float, float] = (10.0, 600.0)
    spike_s: tuple[float, float] = (5.0, 30.0)

    def __post_init__(self) -> None:
        if not (isfinite(self.calm_rps) and self.calm_rps >= 0.0):
            raise ValueError(f"calm_rps of spikes must be at least 0; got {self.calm_rps:g}")
        if not (isfinite(self.height_rps) and self.height_rps > 0.0):
            raise ValueError(f"height_rps of spikes must be above 0; got {self.height_rps:g}")
        for name, (least, most) in (("silence_s", self.silence_s), ("spike_s", self.spike_s)):
            if not (0.0 < least <= most and isfinite(most)):
                raise ValueError(
                    f"{name} of spikes needs two times above 0, the shorter first;"
                    f" got {least:g} and {most:g}"
                )

    @property
    def mean_rps(self) -> float:
        """Return the rate over a long time."""
        (short, long), spike_s = self.silence_s, sum(self.spike_s) / 2.0
        silence_s = (long - short) / log(long / short) if long > short else short
        share = spike_s / (spike_s + silence_s)
        return (1.0 - share) * self.calm_rps + share * self.height_rps


def spikes(name: str, kind: Spikes, *, span_s: float, mix: Mix, seed: int) -> Trace:
    """Return a silence, a spike, and so on until the end.

    Raises:
        ValueError: no time at all.
    """
    if not (isfinite(span_s) and span_s > 0.0):
        raise ValueError(f"span_s of a trace must be above 0 and finite; got {span_s:g}")
    random = Random(seed)
    requests: list[TraceRequest] = []
    least = kind.height_rps * (HEIGHT_ALPHA - 1.0) / HEIGHT_ALPHA
    now_s = 0.0
    while now_s < span_s:
        low, high = (log(bound) for bound in kind.silence_s)
        silence_s = exp(random.uniform(low, high))
        height_rps = min(MOST_HEIGHT * kind.height_rps, least * random.paretovariate(HEIGHT_ALPHA))
        spike_s = random.uniform(*kind.spike_s)
        for rate_rps, length_s in ((kind.calm_rps, silence_s), (height_rps, spike_s)):
            end_s = min(span_s, now_s + length_s)
            at_s = now_s
            while rate_rps > 0.0:
                at_s += random.expovariate(rate_rps)
                if at_s >= end_s:
                    break
                prompt, output = mix.prompt.draw(random), mix.output.draw(random)
                requests.append(TraceRequest(at_s, prompt, output))
            now_s = end_s
    return Trace(name=name, requests=tuple(requests))


def shift(
    name: str,
    rate_rps: float,
    *,
    before: Mix,
    after: Mix,
    at_s: float,
    span_s: float,
    seed: int,
) -> Trace:
    """Return requests at one rate that have other lengths from `at_s` on.

    Raises:
        ValueError: a rate that is not above 0, or no time at all.
    """
    rate = constant(rate_rps)
    old, new = (
        poisson(name, rate, most_rps=rate_rps, span_s=span_s, mix=mix, seed=seed + part)
        for part, mix in enumerate((before, after))
    )
    kept = [r for r in old.requests if r.at_s < at_s]
    return replace(old, requests=(*kept, *(r for r in new.requests if r.at_s >= at_s)))
