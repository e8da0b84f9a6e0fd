"""The traffic for a command: a recorded trace, or a generated one from a few numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from pathlib import Path

from tandem_operator.cli.command_errors import BadInputError
from tandem_operator.cli.units import amount, clock, duration
from tandem_operator.sim.traces.generate import (
    Agents,
    Lengths,
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
from tandem_operator.sim.traces.readers import TraceFormat, read_trace
from tandem_operator.sim.traces.spikes import Spikes, shift, spikes
from tandem_operator.sim.traces.trace import Trace, scaled

MOST_REQUESTS = 1_000_000


class Shape(StrEnum):
    """The way in which the rate of generated traffic varies."""

    POISSON = "poisson"
    SINE = "sine"
    BURST = "burst"
    RAMP = "ramp"
    STEP = "step"
    DAY = "day"
    MMPP = "mmpp"
    AGENTS = "agents"
    SPIKES = "spikes"
    SHIFT = "shift"


# The shapes without a peak.
LEVEL = (Shape.POISSON, Shape.AGENTS, Shape.SHIFT)
# The longest silence and the longest spike are so many times the shortest.
SILENCES, SPIKES = 60.0, 6.0


@dataclass(frozen=True, slots=True)
class Made:
    """Traffic generated from a few numbers.

    Attributes:
        rate_rps: the usual rate, and the lowest one.
        peak_rps: the highest one.
        period_s: length of a wave, a day, a stay in a state, or the longest silence.
        at_s: start of a burst, a step, a ramp or a shift.
        for_s: length of a burst, a ramp or the longest spike.
        then_prompt_tokens, then_output_tokens: lengths after a shift.
    """

    shape: Shape
    rate_rps: float
    peak_rps: float
    span_s: float
    period_s: float
    at_s: float
    for_s: float
    prompt_tokens: float
    output_tokens: float
    then_prompt_tokens: float
    then_output_tokens: float
    sigma: float


@dataclass(frozen=True, slots=True)
class RecordedTraffic:
    """Traffic from a file. If `form` is `None`, the file's first line shows the format."""

    path: Path
    form: TraceFormat | None
    rate_scale: float
    span_s: float | None


def trace_of(traffic: Made | RecordedTraffic, *, seed: int) -> Trace:
    """Return the requests.

    Raises:
        BadInputError: numbers that make no traffic, or a file that cannot be read.
        TraceError: a broken trace, with file and line.
    """
    return _read(traffic, seed) if isinstance(traffic, RecordedTraffic) else _make(traffic, seed)


def times(trace: Trace, factor: float, *, seed: int) -> Trace:
    """Return a trace at so many times its load.

    Raises:
        BadInputError: a factor that makes no traffic, or too much of it.
    """
    if not (isfinite(factor) and factor > 0.0):
        raise BadInputError(f"--rate-scale must be above 0, such as 2; got {factor:g}")
    if len(trace.requests) * factor > MOST_REQUESTS:
        raise BadInputError(
            f"--rate-scale {factor:g} makes more than {MOST_REQUESTS:,} requests; take at most"
            f" {MOST_REQUESTS // len(trace.requests)}"
        )
    found = scaled(trace, factor, seed=seed)
    if not found.requests:
        raise BadInputError(f"--rate-scale {factor:g} leaves no request; take a higher one")
    return found


def describe(trace: Trace) -> str:
    """Return the traffic in a few words."""
    count = max(1, len(trace.requests))
    prompt = sum(r.prompt_tokens for r in trace.requests) / count
    output = sum(r.output_tokens for r in trace.requests) / count
    return (
        f"{trace.name}: {len(trace.requests):,} requests in {clock(trace.span_s)}"
        f" ({amount(trace.rate_rps)}/s), on average {prompt:,.0f} tokens in, {output:,.0f} out"
    )


def _read(recorded: RecordedTraffic, seed: int) -> Trace:
    path = recorded.path
    try:
        with path.open(encoding="utf-8") as lines:
            form = recorded.form or _form_of(path, lines)
            lines.seek(0)
            return read_trace(
                lines,
                source=str(path),
                form=form,
                seed=seed,
                rate_scale=recorded.rate_scale,
                span_s=recorded.span_s,
                most_requests=MOST_REQUESTS,
            )
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read ({error.strerror})") from None


def _form_of(path: Path, lines: Iterator[str]) -> TraceFormat:
    first = next(lines, "").strip()
    if not first:
        raise BadInputError(f"{path}:1: is empty")
    if first.startswith("{"):
        return TraceFormat.MOONCAKE
    if "ContextTokens" in first:
        return TraceFormat.AZURE
    if "rate_rps" in first:
        return TraceFormat.SERVEGEN
    raise BadInputError(
        f"{path}:1: is no known kind of trace; name it with --format azure, mooncake or servegen"
    )


def _make(made: Made, seed: int) -> Trace:
    _check(made)
    level = made.shape in LEVEL
    most_rps = made.rate_rps if level else made.peak_rps
    expected = made.span_s * most_rps
    if expected > MOST_REQUESTS:
        upto = "" if level else "up to "
        raise BadInputError(
            f"{upto}{most_rps:g} requests/s for {duration(made.span_s)} are {upto}{expected:,.0f}"
            f" requests, more than {MOST_REQUESTS:,}; take a lower rate or a shorter span, such as"
            f" --span {duration(0.9 * MOST_REQUESTS / most_rps)}"
        )
    trace = _drawn(made, seed)
    if not trace.requests:
        raise BadInputError(
            f"--rate {made.rate_rps:g} makes no request in {clock(made.span_s)}; take a higher"
            " rate or a longer --span"
        )
    return trace


def _drawn(made: Made, seed: int) -> Trace:
    name, span_s = _name(made), made.span_s
    mix = _mix(made, made.prompt_tokens, made.output_tokens)
    match made.shape:
        case Shape.MMPP:
            states = (
                MmppState(made.rate_rps, made.period_s),
                MmppState(made.peak_rps, made.for_s),
            )
            return mmpp(name, states, span_s=span_s, mix=mix, seed=seed)
        case Shape.AGENTS:
            count = max(1, round(made.rate_rps * _session_gap_s(Agents(1))))
            return agents(name, Agents(count), span_s=span_s, mix=mix, seed=seed)
        case Shape.SPIKES:
            kind = Spikes(
                made.rate_rps,
                made.peak_rps,
                silence_s=(made.period_s / SILENCES, made.period_s),
                spike_s=(made.for_s / SPIKES, made.for_s),
            )
            return spikes(name, kind, span_s=span_s, mix=mix, seed=seed)
        case Shape.SHIFT:
            return shift(
                name,
                made.rate_rps,
                before=mix,
                after=_mix(made, made.then_prompt_tokens, made.then_output_tokens),
                at_s=made.at_s,
                span_s=span_s,
                seed=seed,
            )
        case _:
            rate, most_rps = _RATES[made.shape](made), max(made.rate_rps, made.peak_rps)
            return poisson(name, rate, most_rps=most_rps, span_s=span_s, mix=mix, seed=seed)


def _mix(made: Made, prompt_tokens: float, output_tokens: float) -> Mix:
    return Mix(Lengths(prompt_tokens, made.sigma), Lengths(output_tokens, made.sigma))


def _session_gap_s(kind: Agents) -> float:
    """Return the mean time between two calls of one agent, with its rests spread over the calls."""
    return ((kind.calls - 1.0) * kind.think_s + kind.rest_s) / kind.calls


def _check(made: Made) -> None:
    for option, value in (
        ("--rate", made.rate_rps),
        ("--peak", made.peak_rps),
        ("--prompt-tokens", made.prompt_tokens),
        ("--output-tokens", made.output_tokens),
        ("--then-prompt-tokens", made.then_prompt_tokens),
        ("--then-output-tokens", made.then_output_tokens),
    ):
        least = 1.0 if option.endswith("tokens") else 0.0
        if not isfinite(value) or value < least or value <= 0.0:
            bound = "at least 1" if least else "above 0"
            raise BadInputError(f"{option} must be {bound}, such as 20; got {value:g}")
    same = (made.prompt_tokens, made.output_tokens)
    if made.shape is Shape.SHIFT and (made.then_prompt_tokens, made.then_output_tokens) == same:
        raise BadInputError(
            "--generate shift needs lengths to shift to, such as --then-prompt-tokens"
            f" {2.0 * made.prompt_tokens:g}"
        )
    if not (isfinite(made.sigma) and 0.0 <= made.sigma <= 3.0):
        raise BadInputError(f"--length-sigma must be from 0 to 3, such as 0.6; got {made.sigma:g}")
    if made.shape is not Shape.POISSON and made.peak_rps < made.rate_rps:
        raise BadInputError(
            f"--peak must be at least --rate ({made.rate_rps:g}); got {made.peak_rps:g}"
        )


def _name(made: Made) -> str:
    if made.shape in LEVEL:
        return f"{made.shape} {made.rate_rps:g}/s"
    return f"{made.shape} {made.rate_rps:g}-{made.peak_rps:g}/s"


_RATES: dict[Shape, Callable[[Made], Rate]] = {
    Shape.POISSON: lambda made: constant(made.rate_rps),
    Shape.SINE: lambda made: sine(made.rate_rps, made.peak_rps, period_s=made.period_s),
    Shape.BURST: lambda made: burst(
        constant(made.rate_rps),
        factor=made.peak_rps / made.rate_rps,
        begin_s=made.at_s,
        end_s=made.at_s + made.for_s,
    ),
    Shape.RAMP: lambda made: ramp(
        made.rate_rps, made.peak_rps, begin_s=made.at_s, end_s=made.at_s + made.for_s
    ),
    Shape.STEP: lambda made: step(made.rate_rps, made.peak_rps, at_s=made.at_s),
    Shape.DAY: lambda made: diurnal(made.rate_rps, made.peak_rps, day_s=made.period_s),
}
