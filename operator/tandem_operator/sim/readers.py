"""Read traces in the formats of Azure, Mooncake and ServeGen, line by line.

A line that cannot be read is an error that names the file and the line; nothing is skipped.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from itertools import takewhile
from math import inf, isfinite, log, sqrt
from random import Random
from typing import Any, TypeVar

from tandem_operator.sim.trace import Trace, TraceRequest, in_order, scaled

Number = TypeVar("Number", int, float)

MOST_TOKENS = 10_000_000
MOST_REQUESTS = 2_000_000
LEAST_CV, MOST_CV = 0.1, 8.0
SERVEGEN_SIGMA = 1.0
WINDOW_S = 600.0


class TraceFormat(StrEnum):
    """Who published the trace."""

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
    """The trace that `lines` of the file named `source` hold, of the first `span_s` seconds.

    A ServeGen file holds rates, not requests: they are drawn with `seed`, at `rate_scale` times the
    rate. Recorded requests are laid over themselves, as `scaled` does it.

    Raises:
        TraceError: no request, too many of them, a broken line, or a scale that is not positive.
    """
    if not (isfinite(rate_scale) and rate_scale > 0.0):
        raise TraceError(f"rate scale must be greater than 0, such as 2; got {rate_scale:g}")
    end_s = inf if span_s is None else span_s
    if form is TraceFormat.SERVEGEN:
        drawn = _servegen(lines, source, Random(seed), rate_scale)
        requests = tuple(
            _at_most(most_requests, takewhile(lambda r: r.at_s < end_s, drawn), source)
        )
        trace = Trace(name=source, requests=requests)
    else:
        read = _azure if form is TraceFormat.AZURE else _mooncake
        found = in_order(_at_most(most_requests, read(lines, source), source))
        first_s = found[0].at_s if found else 0.0
        moved = (replace(r, at_s=r.at_s - first_s) for r in found)
        trace = Trace(name=source, requests=tuple(r for r in moved if r.at_s < end_s))
        if rate_scale != 1.0:
            trace = scaled(trace, rate_scale, seed=seed)
    if not trace.requests:
        raise TraceError(f"{source}: holds no request")
    return trace


def _at_most(most: int, requests: Iterable[TraceRequest], source: str) -> Iterator[TraceRequest]:
    for count, request in enumerate(requests):
        if count >= most:
            raise TraceError(
                f"{source}: more than {most} requests; take a shorter span, such as "
                f"{request.at_s / 2.0:.0f} s, or a smaller rate scale"
            )
        yield request


def _azure(lines: Iterable[str], source: str) -> Iterator[TraceRequest]:
    for number, row in _rows(lines, source, ("TIMESTAMP", "ContextTokens", "GeneratedTokens")):
        where = f"{source}:{number}"
        yield TraceRequest(
            at_s=_moment_s(row["TIMESTAMP"], where),
            prompt_tokens=_tokens(row, "ContextTokens", where),
            output_tokens=_tokens(row, "GeneratedTokens", where),
        )


def _moment_s(text: str, where: str) -> float:
    # The file has 100 ns digits; `fromisoformat` takes six of them.
    whole, _, fraction = text.strip().partition(".")
    try:
        moment = datetime.fromisoformat(f"{whole}+00:00")
        return moment.timestamp() + (float(f"0.{fraction}") if fraction else 0.0)
    except ValueError:
        raise TraceError(
            f"{where}: TIMESTAMP must be like 2023-11-16 18:15:46.6805900; got {text!r}"
        ) from None


def _mooncake(lines: Iterable[str], source: str) -> Iterator[TraceRequest]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{source}:{number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise TraceError(f"{where}: not JSON ({error.msg})") from None
        if not isinstance(row, dict):
            raise TraceError(f'{where}: expected an object like {{"timestamp": 0, ...}}')
        blocks = row.get("hash_ids")
        blocks = [] if blocks is None else blocks
        if not isinstance(blocks, list) or not all(isinstance(b, int) for b in blocks):
            raise TraceError(f"{where}: hash_ids must be a list of whole numbers")
        yield TraceRequest(
            at_s=_number(row, "timestamp", where) / 1000.0,
            prompt_tokens=_tokens(row, "input_length", where),
            output_tokens=_tokens(row, "output_length", where),
            blocks=tuple(blocks),
        )


def _servegen(
    lines: Iterable[str], source: str, random: Random, rate_scale: float
) -> Iterator[TraceRequest]:
    """Per window: gamma gaps at its rate and burstiness, lognormal lengths around its means."""
    at_s = 0.0
    for start_s, rate, cv, prompt, output in _windows(lines, source):
        if rate == 0.0:
            continue
        shape = min(MOST_CV, max(cv, LEAST_CV)) ** -2.0
        mean_gap_s = 1.0 / (rate * rate_scale)
        at_s = max(at_s, start_s + random.random() * mean_gap_s)
        while at_s < start_s + WINDOW_S:
            yield TraceRequest(at_s, _length(random, prompt), _length(random, output))
            at_s += random.gammavariate(shape, mean_gap_s / shape)


def _windows(lines: Iterable[str], source: str) -> Iterator[tuple[float, ...]]:
    """Start, rate, CV and mean lengths of each window.

    One whose columns are all zero is a gap in the source, and unknown is not zero: it is taken to
    be as the window before it, and gaps at the beginning as the first window that is known.
    """
    columns = ("t_s", "rate_rps", "rate_weighted_cv", "mean_input_tokens", "mean_output_tokens")
    unknown: list[float] = []
    last: tuple[float, ...] | None = None
    for number, row in _rows(lines, source, columns):
        where = f"{source}:{number}"
        start_s, *values = (_number(row, name, where) for name in columns)
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
    names = [name.strip() for name in header.split(",")]
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
    if count > MOST_TOKENS:
        raise TraceError(f"{where}: {name} is {count}, more than any model takes")
    # A request with no output is one that ended at once: its first token is its last.
    return max(1, count)


def _parsed(
    row: Mapping[str, Any], name: str, where: str, kind: Callable[[Any], Number], wanted: str
) -> Number:
    value = row.get(name)
    try:
        number = None if value is None or isinstance(value, bool) else kind(value)
        if isinstance(value, float) and number != value:
            number = None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not isfinite(number) or number < 0:
        raise TraceError(f"{where}: {name} must be {wanted}; got {value!r}")
    return number
