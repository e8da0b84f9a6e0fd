"""Traces as files: read with the product's readers, written as NVIDIA's replay takes them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tandem_operator.sim.traces.readers import TraceError, TraceFormat, read_trace
from tandem_operator.sim.traces.trace import Trace


def opened(
    path: Path,
    form: TraceFormat,
    *,
    rate_scale: float = 1.0,
    seed: int = 1,
    span_s: float | None = None,
) -> Trace:
    """Return the trace in the file `path`, as `read_trace` reads it, named after the file."""
    try:
        with path.open(encoding="utf-8") as lines:
            trace = read_trace(
                lines,
                source=str(path),
                form=form,
                rate_scale=rate_scale,
                seed=seed,
                span_s=span_s,
            )
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: is not text ({error.reason})") from None
    return replace(trace, name=trace.name.replace(str(path), path.stem))


def in_whole_ms(trace: Trace) -> Trace:
    """Return the trace on the replay's clock of whole milliseconds, so that all meet the same."""
    requests = (replace(r, at_s=int(r.at_s * 1000.0) / 1000.0) for r in trace.requests)
    return replace(trace, requests=tuple(requests))


def replay_lines(trace: Trace) -> Iterator[str]:
    """Yield the trace as the replay reads it; requests without blocks get blocks of their own."""
    unused = 1 + max((block for r in trace.requests for block in r.blocks), default=0)
    for request in trace.requests:
        blocks = list(request.blocks)
        if not blocks:
            count = -(-request.prompt_tokens // trace.block_tokens)
            blocks = list(range(unused, unused + count))
            unused += count
        row = {
            "timestamp": round(request.at_s * 1000.0),
            "input_length": request.prompt_tokens,
            "output_length": request.output_tokens,
            "hash_ids": blocks,
        }
        yield json.dumps(row, separators=(",", ":")) + "\n"
