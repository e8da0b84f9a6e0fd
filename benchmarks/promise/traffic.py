"""The traffic of a case, as plain numbers from which its requests are made."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from benchmarks.replay.traces import opened
from tandem_operator.sim.traces.generate import (
    Agents,
    Mix,
    MmppState,
    Rate,
    agents,
    burst,
    constant,
    diurnal,
    mmpp,
    poisson,
    ramp,
    sine,
    step,
)
from tandem_operator.sim.traces.readers import TraceFormat
from tandem_operator.sim.traces.spikes import Spikes, shift, spikes
from tandem_operator.sim.traces.trace import Trace, scaled, window


class Family(StrEnum):
    """Kinds of traffic."""

    POISSON = "poisson"
    MMPP = "mmpp"
    SPIKES = "spikes"
    AGENTS = "agents"
    SINE = "sine"
    DAY = "day"
    STEP = "step"
    RAMP = "ramp"
    BURST = "burst"
    SHIFT = "shift"
    AZURE = "azure"
    MOONCAKE = "mooncake"
    SERVEGEN = "servegen"


FILES = {
    Family.AZURE: ("azure2023_conv.csv", TraceFormat.AZURE),
    Family.MOONCAKE: ("mooncake_conversation_trace.jsonl", TraceFormat.MOONCAKE),
    Family.SERVEGEN: ("servegen_language_m-small_agg10min.csv", TraceFormat.SERVEGEN),
}


@dataclass(frozen=True, slots=True)
class Traffic:
    """The requests of users. Two values with equal numbers are the same requests.

    Attributes:
        low_rps, high_rps: the usual rate, and that of a crest, a rush or a spike.
        mix: lengths of prompts and answers; `after`: those after a shift.
        period_s: length of a wave or a day, a mean stay in the calm, or the longest silence. A
            burst without one stands on a level rate.
        lasts_s: the length of a burst, a ramp, a mean rush or the longest spike.
        at_s: the time at which a step, ramp, burst or shift begins.
        times: the factor on the rate in a burst.
        scale: the factor on the load of recorded traffic, or the number of agents.
    """

    family: Family
    low_rps: float
    high_rps: float
    span_s: float
    seed: int
    mix: Mix
    after: Mix | None = None
    period_s: float | None = None
    lasts_s: float = 0.0
    at_s: float = 0.0
    times: float = 1.0
    scale: float = 1.0

    def sized(self, factor: float) -> "Traffic":
        """Return the traffic at so many times the load."""
        return replace(
            self,
            low_rps=self.low_rps * factor,
            high_rps=self.high_rps * factor,
            scale=self.scale * factor,
        )


def requests_of(traffic: Traffic, folder: Path | None) -> Trace:
    """Return the requests; `folder` holds the recorded ones."""
    name, span_s, mix, seed = str(traffic.family), traffic.span_s, traffic.mix, traffic.seed
    match traffic.family:
        case Family.MMPP:
            states = (
                MmppState(traffic.low_rps, _period_s(traffic)),
                MmppState(traffic.high_rps, traffic.lasts_s),
            )
            return mmpp(name, states, span_s=span_s, mix=mix, seed=seed)
        case Family.SPIKES:
            kind = Spikes(traffic.low_rps, traffic.high_rps)
            return spikes(name, kind, span_s=span_s, mix=mix, seed=seed)
        case Family.AGENTS:
            count = max(1, round(traffic.scale))
            return agents(name, Agents(count), span_s=span_s, mix=mix, seed=seed)
        case Family.SHIFT:
            return shift(
                name,
                traffic.low_rps,
                before=mix,
                after=traffic.after or mix,
                at_s=traffic.at_s,
                span_s=span_s,
                seed=seed,
            )
        case Family.AZURE | Family.MOONCAKE | Family.SERVEGEN:
            return _recorded(traffic, folder)
        case _:
            # A burst may stand on a crest.
            most_rps = max(traffic.low_rps, traffic.high_rps) * traffic.times
            rate = rate_of(traffic)
            return poisson(name, rate, most_rps=most_rps, span_s=span_s, mix=mix, seed=seed)


def rate_of(traffic: Traffic) -> Rate:
    """Return the requests per second at a moment, of traffic that has a rate over time."""
    low, high, at_s = traffic.low_rps, traffic.high_rps, traffic.at_s
    end_s = at_s + traffic.lasts_s
    match traffic.family:
        case Family.POISSON:
            return constant(low)
        case Family.SINE:
            return sine(low, high, period_s=_period_s(traffic))
        case Family.DAY:
            return diurnal(low, high, day_s=_period_s(traffic))
        case Family.STEP:
            return step(low, high, at_s=at_s)
        case Family.RAMP:
            return ramp(low, high, begin_s=at_s, end_s=end_s)
        case Family.BURST:
            under = constant(low)
            if traffic.period_s is not None:
                under = sine(low, high, period_s=traffic.period_s)
            return burst(under, factor=traffic.times, begin_s=at_s, end_s=end_s)
        case _:
            raise ValueError(f"{traffic.family} is no rate over time")


def _period_s(traffic: Traffic) -> float:
    if traffic.period_s is None:
        raise ValueError(f"{traffic.family} needs a period_s, such as 600")
    return traffic.period_s


def _recorded(traffic: Traffic, folder: Path | None) -> Trace:
    """Return a part of recorded traffic, from `at_s` on."""
    if folder is None:
        raise ValueError(f"{traffic.family} needs the folder that holds {FILES[traffic.family][0]}")
    file, form = FILES[traffic.family]
    if form is TraceFormat.SERVEGEN:
        end_s = traffic.at_s + traffic.span_s
        whole = opened(
            folder / file, form, rate_scale=traffic.scale, seed=traffic.seed, span_s=end_s
        )
        return window(whole, traffic.at_s, end_s)
    whole = opened(folder / file, form)
    part = window(whole, traffic.at_s, traffic.at_s + traffic.span_s)
    return scaled(part, traffic.scale, seed=traffic.seed)
