"""Request traces: read the public formats, change their rate, write what the simulator reads.

A broken line is an error that names file and line; nothing is guessed.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TextIO

BLOCK_TOKENS = 512
MOST_REQUESTS = 2_000_000
MOST_CV = 10.0
LENGTH_SIGMA = 1.0
MOST_TOKENS = 131_072


class TraceError(ValueError):
    """A trace cannot be used; the sentence names the file, the line and what is wrong."""


class Request(NamedTuple):
    """One request. `blocks` names its 512-token prefix blocks; without them it shares nothing."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival, the first at about zero seconds."""

    name: str
    requests: tuple[Request, ...]

    @property
    def duration_s(self) -> float:
        """Time of the last arrival."""
        return self.requests[-1].at_s

    @property
    def longest_tokens(self) -> int:
        """The longest prompt with its output."""
        return max(r.prompt_tokens + r.output_tokens for r in self.requests)


@dataclass(frozen=True, slots=True)
class Window:
    """Ten minutes of an aggregated trace."""

    rate_rps: float
    cv: float
    prompt_tokens: float
    output_tokens: float


def read(path: Path, form: str, *, rate_scale: float, seed: int, hours: float) -> Trace:
    """The trace in `path`, with `rate_scale` times its requests per second.

    Traces of requests are laid over themselves, shifted in time, and thinned for the rest: that
    keeps the length of their bursts. `hours` of an aggregated trace are drawn from the seed.
    """
    readers: dict[str, Callable[[TextIO, Path], Iterator[Request]]] = {
        "azure": _azure,
        "mooncake": _mooncake,
    }
    try:
        with path.open(encoding="utf-8") as lines:
            if form == "servegen":
                windows = list(_windows(lines, path))
                drawn = draw(windows, rate_scale=rate_scale, seed=seed, hours=hours)
                return _ordered(path, drawn, path.stem)
            requests = _ordered(path, list(readers[form](lines, path)), path.stem)
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path} is no text file: {error.reason}") from error
    return requests if rate_scale == 1.0 else scaled(requests, rate_scale, seed=seed)


def _ordered(path: Path, requests: list[Request], name: str) -> Trace:
    if not requests:
        raise TraceError(f"{path} holds no request")
    if len(requests) > MOST_REQUESTS:
        raise TraceError(
            f"{path} gives {len(requests)} requests, the simulator takes at most {MOST_REQUESTS}: "
            f"use a smaller --rate-scale, for example {MOST_REQUESTS / len(requests):.2g}"
        )
    first_s = min(r.at_s for r in requests)
    ordered = sorted(requests, key=lambda r: r.at_s)
    return Trace(name, tuple(r._replace(at_s=r.at_s - first_s) for r in ordered))


def _azure(lines: TextIO, path: Path) -> Iterator[Request]:
    columns = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]
    for number, cells in _cells(lines, path, columns):
        try:
            # Ten-millionths of a second: one digit more than datetime takes.
            at_s = datetime.fromisoformat(cells[0][:26]).timestamp()
        except ValueError as error:
            raise TraceError(f"{path}:{number}: TIMESTAMP {cells[0]!r} is no time") from error
        prompt = _whole(cells[1], "ContextTokens", path, number)
        yield Request(at_s, prompt, _whole(cells[2], "GeneratedTokens", path, number))


def _mooncake(lines: TextIO, path: Path) -> Iterator[Request]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
        except json.JSONDecodeError as error:
            raise TraceError(f"{path}:{number}: no JSON: {error.msg}") from error
        if not isinstance(row, dict):
            raise TraceError(f"{path}:{number}: expected an object with timestamp, input_length")
        at_ms = row.get("timestamp")
        if isinstance(at_ms, bool) or not isinstance(at_ms, int | float) or at_ms < 0:
            raise TraceError(f"{path}:{number}: timestamp must be milliseconds >= 0, not {at_ms!r}")
        blocks = row.get("hash_ids")
        if blocks is not None and not (
            isinstance(blocks, list) and all(isinstance(b, int) for b in blocks)
        ):
            raise TraceError(f"{path}:{number}: hash_ids must be a list of whole numbers")
        yield Request(
            at_ms / 1000.0,
            _whole(row.get("input_length"), "input_length", path, number),
            _whole(row.get("output_length"), "output_length", path, number),
            None if blocks is None else tuple(blocks),
        )


def _windows(lines: TextIO, path: Path) -> Iterator[Window]:
    columns = ["t_s", "rate_rps", "rate_weighted_cv", "mean_input_tokens", "mean_output_tokens"]
    last: Window | None = None
    for number, cells in _cells(lines, path, columns):
        try:
            rate, cv, prompt, output = (float(cell) for cell in cells[1:5])
        except ValueError as error:
            raise TraceError(f"{path}:{number}: every column must be a number: {error}") from error
        if min(rate, cv, prompt, output) < 0.0 or not math.isfinite(rate + cv + prompt + output):
            raise TraceError(f"{path}:{number}: every column must be finite and >= 0")
        if rate > 0.0:
            last = Window(rate, cv, prompt, output)
        # A window of zeros is a gap in the source, not a time without traffic.
        if last is not None:
            yield last


def _cells(lines: TextIO, path: Path, columns: list[str]) -> Iterator[tuple[int, list[str]]]:
    header = [cell.strip() for cell in lines.readline().split(",")]
    if header[: len(columns)] != columns:
        raise TraceError(f"{path}:1: expected the columns {','.join(columns)}")
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) < len(columns):
            raise TraceError(f"{path}:{number}: {len(cells)} columns, expected {len(columns)}")
        yield number, cells


def _whole(value: object, name: str, path: Path, number: int) -> int:
    try:
        whole = int(value) if isinstance(value, int | str) else None
    except ValueError:
        whole = None
    if whole is None or isinstance(value, bool) or not 1 <= whole <= 10_000_000:
        raise TraceError(f"{path}:{number}: {name} must be a whole number >= 1, not {value!r}")
    return whole


def draw(
    windows: list[Window], *, rate_scale: float, seed: int, hours: float, window_s: float = 600.0
) -> list[Request]:
    """Requests drawn from aggregates: Gamma gaps with the window's CV, lognormal lengths."""
    random = Random(seed)
    spread = 0.5 * LENGTH_SIGMA * LENGTH_SIGMA
    requests: list[Request] = []
    for index, window in enumerate(windows[: max(1, round(hours * 3600.0 / window_s))]):
        rate_rps = window.rate_rps * rate_scale
        shape = 1.0 / max(0.1, min(MOST_CV, window.cv)) ** 2
        at_s = random.gammavariate(shape, 1.0 / (rate_rps * shape))
        while at_s < window_s:
            prompt, output = (
                max(1, min(MOST_TOKENS, round(random.lognormvariate(mean, LENGTH_SIGMA))))
                for mean in (
                    math.log(max(1.0, window.prompt_tokens)) - spread,
                    math.log(max(1.0, window.output_tokens)) - spread,
                )
            )
            requests.append(Request(index * window_s + at_s, prompt, output))
            if len(requests) > MOST_REQUESTS:
                raise TraceError(
                    f"more than {MOST_REQUESTS} requests in {hours:g} hours: use a smaller "
                    "--rate-scale (0.016 of m-large is about 3 requests/s) or fewer --hours"
                )
            at_s += random.gammavariate(shape, 1.0 / (rate_rps * shape))
    return requests


def scaled(trace: Trace, factor: float, *, seed: int) -> Trace:
    """`factor` times the requests in the same time: shifted copies, the last one thinned."""
    if not (math.isfinite(factor) and factor > 0.0):
        raise TraceError(f"--rate-scale must be above 0, for example 2, not {factor:g}")
    random, whole = Random(seed), math.ceil(factor)
    span_s = trace.duration_s + 1e-3
    requests: list[Request] = []
    for copy in range(whole):
        kept = min(1.0, factor - copy)
        shift_s = span_s * copy / whole
        for request in trace.requests:
            if kept < 1.0 and random.random() >= kept:
                continue
            # The blocks of one copy are not those of another: copies are other users.
            blocks = request.blocks and tuple(b * whole + copy for b in request.blocks)
            at_s = (request.at_s + shift_s) % span_s
            requests.append(request._replace(at_s=at_s, blocks=blocks))
    return _ordered(Path(trace.name), requests, f"{trace.name}-x{factor:g}")


def write(trace: Trace, path: Path) -> None:
    """Write `trace` as the JSON lines that the simulator replays."""
    fresh = count(1 + max((max(r.blocks) for r in trace.requests if r.blocks), default=0))
    with path.open("w", encoding="utf-8") as out:
        for request in trace.requests:
            needed = -(-request.prompt_tokens // BLOCK_TOKENS)
            blocks = request.blocks or [next(fresh) for _ in range(needed)]
            row = {
                "timestamp": round(request.at_s * 1000.0),
                "input_length": request.prompt_tokens,
                "output_length": request.output_tokens,
                "hash_ids": list(blocks),
            }
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
