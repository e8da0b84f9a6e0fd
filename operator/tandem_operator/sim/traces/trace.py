"""The requests of users in order of arrival, and the ways to derive one trace from another.

Nothing here changes a given trace. The name of a derived trace says how it was derived.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from operator import attrgetter
from random import Random

BLOCK_TOKENS = 512
RESAMPLED_PIECES = 20


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request: when it arrives, its lengths, and the ids of its prompt's prefix blocks.

    Attributes:
        slo_class: the class that it names; empty: none.
        tenant: the client that it comes from; empty: it names none.
    """

    at_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    slo_class: str = ""
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival; a prefix block holds `block_tokens` tokens."""

    name: str
    requests: tuple[TraceRequest, ...]
    block_tokens: int = BLOCK_TOKENS

    @property
    def span_s(self) -> float:
        """Return the time from zero to the last arrival."""
        return self.requests[-1].at_s if self.requests else 0.0

    @property
    def rate_rps(self) -> float:
        """Return the mean arrivals per second over the span."""
        return len(self.requests) / self.span_s if self.span_s > 0.0 else 0.0


def in_order(requests: Iterable[TraceRequest]) -> tuple[TraceRequest, ...]:
    """Return the requests by time of arrival; at one moment, in the given order."""
    return tuple(sorted(requests, key=attrgetter("at_s")))


def sped_up(trace: Trace, factor: float) -> Trace:
    """Return the trace with every gap divided by `factor`: more load, and more bursty for a start.

    Raises:
        ValueError: `factor` is not positive.
    """
    _positive("rate scale", factor)
    requests = tuple(replace(r, at_s=r.at_s / factor) for r in trace.requests)
    return replace(trace, name=f"{trace.name} x{factor:g} in time", requests=requests)


def scaled(trace: Trace, factor: float, *, seed: int = 1) -> Trace:
    """Return the trace at `factor` times its load: copies laid over each other, shifted in time.

    Each copy is shifted by a part of the span. Burstiness within a copy stays the same. A seeded
    draw keeps the part of the last copy that completes the factor. Copies share no prefix blocks.

    Raises:
        ValueError: `factor` is not positive.
    """
    _positive("rate scale", factor)
    random = Random(seed)
    copies, span_s = ceil(factor), trace.span_s
    spaces = 1 + max((block for r in trace.requests for block in r.blocks), default=0)
    requests = []
    for copy in range(copies):
        kept = min(1.0, factor - copy)
        requests += [
            replace(
                r,
                at_s=(r.at_s + copy * span_s / copies) % span_s if copy and span_s else r.at_s,
                blocks=tuple(block + copy * spaces for block in r.blocks),
            )
            for r in trace.requests
            if kept >= 1.0 or random.random() < kept
        ]
    return replace(trace, name=f"{trace.name} x{factor:g}", requests=in_order(requests))


def spread(trace: Trace, width_s: float, *, seed: int) -> Trace:
    """Return the trace with each arrival moved later by a seeded draw from 0 to `width_s`.

    This is for traces with a coarse clock, in which requests seem to arrive together.
    """
    random = Random(seed)
    requests = [replace(r, at_s=r.at_s + random.uniform(0.0, width_s)) for r in trace.requests]
    name = f"{trace.name} spread over {width_s:g} s"
    return replace(trace, name=name, requests=in_order(requests))


def window(trace: Trace, start_s: float, end_s: float) -> Trace:
    """Return the part of the trace from `start_s` until `end_s`, its clock set to zero."""
    requests = tuple(
        replace(r, at_s=r.at_s - start_s) for r in trace.requests if start_s <= r.at_s < end_s
    )
    return replace(trace, name=f"{trace.name} {start_s:g}-{end_s:g} s", requests=requests)


def resampled(trace: Trace, *, seed: int) -> Trace:
    """Return another possible trace of the same traffic: a local block bootstrap.

    The trace is cut into `RESAMPLED_PIECES`. A seeded draw puts into each place its own piece or a
    neighbour of it. Waves keep their place; bursts come more or less often. A repeated piece shares
    no prefix blocks with itself.
    """
    random = Random(seed)
    width_s = trace.span_s / RESAMPLED_PIECES
    if width_s <= 0.0:
        return trace
    pieces: list[list[TraceRequest]] = [[] for _ in range(RESAMPLED_PIECES)]
    for request in trace.requests:
        pieces[min(int(request.at_s / width_s), RESAMPLED_PIECES - 1)].append(request)
    spaces = 1 + max((block for r in trace.requests for block in r.blocks), default=0)
    taken = [0] * RESAMPLED_PIECES
    requests: list[TraceRequest] = []
    for place in range(RESAMPLED_PIECES):
        drawn = min(max(0, place + random.randint(-1, 1)), RESAMPLED_PIECES - 1)
        shift_s, space = (place - drawn) * width_s, taken[drawn] * spaces
        taken[drawn] += 1
        requests += [
            replace(r, at_s=r.at_s + shift_s, blocks=tuple(b + space for b in r.blocks))
            for r in pieces[drawn]
        ]
    # Traffic that is quiet for all but a moment of its span may give a draw without that moment.
    return replace(trace, requests=in_order(requests)) if requests else trace


def lengthened(trace: Trace, *, prompts: float = 1.0, outputs: float = 1.0) -> Trace:
    """Return the trace with prompt and output lengths times a factor, at least one token each."""
    _positive("factor on prompts", prompts)
    _positive("factor on outputs", outputs)
    requests = tuple(
        replace(
            r,
            prompt_tokens=max(1, round(r.prompt_tokens * prompts)),
            output_tokens=max(1, round(r.output_tokens * outputs)),
        )
        for r in trace.requests
    )
    return replace(trace, requests=requests)


def of_class(trace: Trace, slo_class: str) -> Trace:
    """Return the trace with one class for every request."""
    return replace(trace, requests=tuple(replace(r, slo_class=slo_class) for r in trace.requests))


def of_tenant(trace: Trace, tenant: str) -> Trace:
    """The trace with every request coming from a tenant."""
    return replace(trace, requests=tuple(replace(r, tenant=tenant) for r in trace.requests))


def classed(trace: Trace, shares: Mapping[str, float], *, seed: int = 1) -> Trace:
    """Return the trace with a share of its requests in each class, by a seeded draw."""
    if not shares:
        return trace
    names = _drawn(len(trace.requests), shares, Random(seed))
    named = zip(trace.requests, names, strict=True)
    return replace(trace, requests=tuple(replace(r, slo_class=name) for r, name in named))


def tenanted(trace: Trace, shares: Mapping[str, float], *, seed: int = 1) -> Trace:
    """The trace with a share of its requests coming from each tenant, by a seeded draw."""
    if not shares:
        return trace
    # Another draw than that of classes, so that each tenant has requests of all classes.
    names = _drawn(len(trace.requests), shares, Random(f"tenants {seed}"))
    named = zip(trace.requests, names, strict=True)
    return replace(trace, requests=tuple(replace(r, tenant=name) for r, name in named))


def _drawn(count: int, shares: Mapping[str, float], random: Random) -> Iterator[str]:
    """So many names, each with its share; empty for the rest."""
    for _ in range(count):
        drawn, name = random.random(), ""
        for each, share in shares.items():
            if 0.0 <= drawn < share:
                name = each
            drawn -= share
        yield name


def joined(name: str, traces: Iterable[Trace]) -> Trace:
    """Return all requests of several traces on one clock."""
    requests = in_order(r for trace in traces for r in trace.requests)
    return Trace(name=name, requests=requests)


def _positive(what: str, value: float) -> None:
    if not value > 0.0:
        raise ValueError(f"{what} must be greater than 0, such as 2; got {value:g}")
