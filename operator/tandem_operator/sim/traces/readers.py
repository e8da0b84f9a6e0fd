"""The reader of traces in the formats of Azure, Mooncake and ServeGen, line by line.

A line that cannot be read is an error that names the file and the line; nothing is skipped.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from itertools import pairwise, takewhile
from math import inf, isfinite, log, sqrt
from random import Random
from typing import Any, TypeVar

from tandem_operator.sim.traces.generate import DAY_S
from tandem_operator.sim.traces.trace import Trace, TraceRequest, scaled

Number = TypeVar("Number", int, float)

MOST_TOKENS = 10_000_000
LONGEST_TENANT = 63
MOST_REQUESTS = 2_000_000
LEAST_CV, MOST_CV = 0.1, 8.0
SERVEGEN_SIGMA = 1.0
WINDOW_S = 600.0
# Below this gap, time would not move: at any rate, there are too many requests.
LEAST_GAP_S = 1e-12
# The traffic of an office stops for a long weekend. A longer stop is a wrong time: its simulation
# would take minutes, or never end.
MOST_GAP_S = 3.0 * DAY_S

# Files of 2023 have 100 ns digits, and `fromisoformat` reads six of them; files of 2024 have an
# offset.
MOMENT = re.compile(r"([^.]*?)(?:\.([0-9]+))?(Z|[+-][0-9]{2}:?[0-9]{2})?")

Row = tuple[int, TraceRequest]


class TraceFormat(StrEnum):
    """The publisher of the trace."""

    AZURE = "azure"
    MOONCAKE = "mooncake"
    SERVEGEN = "servegen"


class TraceError(ValueError):
    """A trace cannot be read; the sentence names file and line."""


def read_trace(
    lines: Iterable[str],
    *,
    source: str,
    form: TraceFormat,
    seed: int = 1,
    rate_scale: float = 1.0,
    span_s: float | None = None,
    most_requests: int = MOST_REQUESTS,
) -> Trace:
    """Return the trace in `lines` of the file named `source`, of the first `span_s` seconds.

    A ServeGen file contains rates, not requests: they are drawn with `seed`, at `rate_scale` times
    the rate. Recorded requests are scaled by copies of the trace, as in `scaled`.

    Raises:
        TraceError: no request, too many of them, a broken line, a time far from all others, or a
            scale that is not positive.
    """
    if not (isfinite(rate_scale) and rate_scale > 0.0):
        raise TraceError(f"rate scale must be greater than 0, such as 2; got {rate_scale:g}")
    end_s = inf if span_s is None else span_s
    if form is TraceFormat.SERVEGEN:
        drawn = _servegen(lines, source, Random(seed), rate_scale, end_s)
        requests = takewhile(lambda r: r.at_s < end_s, drawn)
        trace = Trace(name=source, requests=tuple(_at_most(most_requests, requests, source)))
    else:
        read = _azure if form is TraceFormat.AZURE else _mooncake
        trace = Trace(source, _recorded(read(lines, source), source, end_s, most_requests))
        count = len(trace.requests)
        if count * rate_scale > most_requests:
            part_s = trace.span_s * most_requests / (count * rate_scale)
            limit = f", or a rate scale of at most {most_requests // count}"
            raise _too_many(source, most_requests, part_s, instead=limit)
        if rate_scale != 1.0:
            trace = scaled(trace, rate_scale, seed=seed)
    if not trace.requests:
        raise TraceError(f"{source}: holds no request")
    return trace


def _at_most(most: int, requests: Iterable[TraceRequest], source: str) -> Iterator[TraceRequest]:
    for count, request in enumerate(requests):
        if count >= most:
            raise _too_many(source, most, request.at_s, instead=", or a smaller rate scale")
        yield request


def _too_many(source: str, most: int, part_s: float, *, instead: str = "") -> TraceError:
    """Return the fault; `part_s` is the length of a part of the trace that is small enough."""
    half_s = part_s / 2.0
    span = f"{half_s:.0f}s" if half_s >= 1.0 else f"{half_s:.2g}s"
    return TraceError(
        f"{source}: more than {most:,} requests; take a shorter span, such as {span}{instead}"
    )


def _recorded(
    rows: Iterable[Row], source: str, end_s: float, most: int
) -> tuple[TraceRequest, ...]:
    """Return the requests by time, the first at zero, until `end_s`."""
    first_s = inf
    found: list[Row] = []
    for number, request in rows:
        first_s = min(first_s, request.at_s)
        # Later rows can only move the beginning forward: this one stays past the end.
        if request.at_s - first_s >= end_s:
            continue
        if len(found) >= most:
            raise _too_many(source, most, request.at_s - first_s)
        found.append((number, request))
    found.sort(key=lambda row: row[1].at_s)
    inside = [row for row in found if row[1].at_s - first_s < end_s]
    for (before, earlier), (number, request) in pairwise(inside):
        gap_s, part_s = request.at_s - earlier.at_s, earlier.at_s - first_s
        if gap_s > MOST_GAP_S:
            part = f", such as {part_s + 1.0:.0f}s" if part_s > 0.0 else ""
            raise TraceError(
                f"{source}:{number}: comes {gap_s / DAY_S:,.0f} days after line {before}, the"
                f" request before it; mend the one that is wrong or take a shorter span{part}"
            )
    return tuple(replace(request, at_s=request.at_s - first_s) for _, request in inside)


def _azure(lines: Iterable[str], source: str) -> Iterator[Row]:
    for number, row in _rows(lines, source, ("TIMESTAMP", "ContextTokens", "GeneratedTokens")):
        where = f"{source}:{number}"
        request = TraceRequest(
            at_s=_moment_s(row["TIMESTAMP"], where),
            prompt_tokens=_tokens(row, "ContextTokens", where),
            output_tokens=_tokens(row, "GeneratedTokens", where),
        )
        yield number, request


def _moment_s(text: str, where: str) -> float:
    found = MOMENT.fullmatch(text)
    whole, fraction, offset = found.groups() if found else (text, None, None)
    try:
        moment = datetime.fromisoformat(f"{whole}{offset or '+00:00'}")
        return moment.timestamp() + float(f"0.{fraction or 0}")
    except ValueError:
        raise TraceError(
            f"{where}: TIMESTAMP must be like 2023-11-16 18:15:46.6805900; got {text!r}"
        ) from None


def _mooncake(lines: Iterable[str], source: str) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{source}:{number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise TraceError(f"{where}: not JSON ({error.msg})") from None
        except (ValueError, RecursionError):
            raise TraceError(f"{where}: a number too long or nesting too deep to read") from None
        if not isinstance(row, dict):
            raise TraceError(f'{where}: expected an object like {{"timestamp": 0, ...}}')
        blocks = row.get("hash_ids")
        blocks = [] if blocks is None else blocks
        if not isinstance(blocks, list) or not all(isinstance(b, int) for b in blocks):
            raise TraceError(f"{where}: hash_ids must be a list of whole numbers")
        request = TraceRequest(
            at_s=_number(row, "timestamp", where) / 1000.0,
            prompt_tokens=_tokens(row, "input_length", where),
            output_tokens=_tokens(row, "output_length", where),
            blocks=tuple(blocks),
            tenant=_tenant(row, where),
        )
        yield number, request


def _tenant(row: Mapping[str, Any], where: str) -> str:
    tenant = row.get("tenant")
    if tenant is None:
        return ""
    if not isinstance(tenant, str) or not 0 < len(tenant) <= LONGEST_TENANT:
        raise TraceError(
            f"{where}: tenant must be a name of at most {LONGEST_TENANT} characters; got {tenant!r}"
        )
    return tenant


def _servegen(
    lines: Iterable[str], source: str, random: Random, rate_scale: float, end_s: float
) -> Iterator[TraceRequest]:
    """Yield requests by window: gamma gaps at its rate, lognormal lengths around its means."""
    at_s = 0.0
    for start_s, rate, cv, prompt, output in _windows(lines, source, end_s):
        if rate * rate_scale == 0.0:
            continue
        shape = min(MOST_CV, max(cv, LEAST_CV)) ** -2.0
        mean_gap_s = max(LEAST_GAP_S, 1.0 / (rate * rate_scale))
        at_s = max(at_s, start_s + random.random() * mean_gap_s)
        while at_s < start_s + WINDOW_S:
            yield TraceRequest(at_s, _length(random, prompt), _length(random, output))
            at_s += random.gammavariate(shape, mean_gap_s / shape)


def _windows(lines: Iterable[str], source: str, end_s: float) -> Iterator[tuple[float, ...]]:
    """Yield start, rate, CV and mean lengths of each window; the first starts at zero.

    A window whose columns are all zero is a gap in the source, and unknown is not zero. It counts
    as the window before it. Gaps at the beginning count as the first known window.
    """
    columns = ("t_s", "rate_rps", "rate_weighted_cv", "mean_input_tokens", "mean_output_tokens")
    unknown: list[float] = []
    last: tuple[float, ...] | None = None
    first_s = before_s = -inf
    before = 0
    for number, row in _rows(lines, source, columns):
        where = f"{source}:{number}"
        at_s, *values = (_number(row, name, where) for name in columns)
        for name, mean in zip(columns[3:], values[2:], strict=True):
            _no_giant(mean, name, where)
        first_s = at_s if before == 0 else first_s
        start_s = at_s - first_s
        if start_s < before_s + WINDOW_S:
            raise TraceError(
                f"{where}: t_s is {at_s:.10g}, less than {WINDOW_S:g} seconds after line {before};"
                f" a window is of {WINDOW_S:g} seconds, and they come in order of time"
            )
        if 0.0 <= before_s < start_s - MOST_GAP_S and start_s < end_s:
            raise TraceError(
                f"{where}: begins {(start_s - before_s) / DAY_S:,.0f} days after line {before};"
                " mend the one that is wrong or take a shorter span"
            )
        before, before_s = number, start_s
        if any(values):
            last = tuple(values)
        elif last is None:
            unknown.append(start_s)
            continue
        yield from ((early_s, *last) for early_s in (*unknown, start_s))
        unknown.clear()


def _length(random: Random, mean: float) -> int:
    location = log(max(1.0, mean)) - 0.5 * SERVEGEN_SIGMA * SERVEGEN_SIGMA
    most = max(1.0, mean) * (1.0 + 10.0 * sqrt(1.0 + SERVEGEN_SIGMA))
    return max(1, int(min(most, random.lognormvariate(location, SERVEGEN_SIGMA))))


def _rows(
    lines: Iterable[str], source: str, columns: tuple[str, ...]
) -> Iterator[tuple[int, Mapping[str, str]]]:
    found = iter(lines)
    header = next(found, None)
    if header is None:
        raise TraceError(f"{source}: is empty")
    names = [name.strip() for name in header.removeprefix("\ufeff").split(",")]
    missing = [name for name in columns if name not in names]
    if missing:
        raise TraceError(f"{source}:1: header lacks {', '.join(missing)}; got {header.strip()!r}")
    for number, line in enumerate(found, 2):
        if not line.strip():
            continue
        values = [value.strip() for value in line.split(",")]
        if len(values) != len(names):
            raise TraceError(f"{source}:{number}: expected {len(names)} columns; got {len(values)}")
        yield number, dict(zip(names, values, strict=True))


def _number(row: Mapping[str, Any], name: str, where: str) -> float:
    return _parsed(row, name, where, float, "a number of at least 0")


def _tokens(row: Mapping[str, Any], name: str, where: str) -> int:
    count = _parsed(row, name, where, int, "a whole number of tokens of at least 0")
    _no_giant(count, name, where)
    # A request without output ended at once: its first token is its last.
    return max(1, count)


def _no_giant(tokens: float, name: str, where: str) -> None:
    if tokens > MOST_TOKENS:
        raise TraceError(f"{where}: {name} is {tokens:g}, more than any model takes")


def _parsed(
    row: Mapping[str, Any], name: str, where: str, kind: Callable[[Any], Number], wanted: str
) -> Number:
    value = row.get(name)
    try:
        number = None if value is None or isinstance(value, bool) else kind(value)
        if number is not None and not isfinite(number):
            number = None
        if isinstance(value, float) and number != value:
            number = None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or number < 0:
        raise TraceError(f"{where}: {name} must be {wanted}; got {value!r}")
    return number
