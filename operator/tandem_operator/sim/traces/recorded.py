"""The maker of traces from routers' records: lengths, arrivals, and prefix blocks without text.

Routers mark by chunks of bytes how far prompts are equal; traces do so by blocks of tokens. The
tokens of a chunk are a mean over the whole record, so equal prompts stay equal.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from random import Random

from tandem_operator.sim.traces.trace import BLOCK_TOKENS, Trace, TraceRequest
from tandem_routing.history import prompt_bucket

USUAL_CHUNK_TOKENS = 256.0
# In a shorter prompt, the rest behind its last whole chunk would have too much weight.
LEAST_CHUNKS = 4


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request as a router saw it, on a clock that all routers share.

    Attributes:
        cached_tokens: `None` if no engine reported them.
        output_tokens: tokens of the whole answer if it is `whole`, else those made so far.
        marks: marks of the prompt's chunks, from the first on.
        tenant: the name of its tenant; empty: none is known.
    """

    at_s: float
    prompt_tokens: int
    cached_tokens: int | None
    output_tokens: int
    whole: bool
    marks: tuple[bytes, ...] = ()
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class RecordedTrace:
    """The trace, and other facts about it.

    Attributes:
        drawn: number of answers that were not whole; their lengths are drawn from whole ones.
        cached_share: cached share of the reported prompt tokens; `None` without any report.
    """

    trace: Trace
    drawn: int
    cached_share: float | None


def recorded(
    name: str, seen: Sequence[LoggedRequest], *, since_s: float, seed: int = 1
) -> RecordedTrace | None:
    """Return the trace of these requests, with its clock zero at `since_s`.

    Returns `None` if no answer is whole, because the length of answers would not be known.
    """
    ordered = sorted(seen, key=lambda each: each.at_s)
    if not any(each.whole for each in ordered):
        return None
    outputs = _Outputs(ordered, Random(seed))
    chunk_tokens = _chunk_tokens(ordered)
    numbers: dict[bytes, int] = {}
    requests = tuple(
        TraceRequest(
            at_s=max(0.0, each.at_s - since_s),
            prompt_tokens=max(1, each.prompt_tokens),
            output_tokens=max(1, outputs.of(each)),
            blocks=tuple(_blocks(each, chunk_tokens, numbers)),
            tenant=each.tenant,
        )
        for each in ordered
    )
    measured = [each for each in ordered if each.cached_tokens is not None and each.prompt_tokens]
    tokens = sum(each.prompt_tokens for each in measured)
    return RecordedTrace(
        trace=Trace(name=name, requests=requests),
        drawn=sum(not each.whole for each in ordered),
        cached_share=sum(e.cached_tokens or 0 for e in measured) / tokens if tokens else None,
    )


def trace_lines(trace: Trace) -> Iterator[str]:
    """Yield the trace in Mooncake's format, one request a line; ours names its tenant too."""
    for request in trace.requests:
        row = {
            "timestamp": round(1000.0 * request.at_s, 1),
            "input_length": request.prompt_tokens,
            "output_length": request.output_tokens,
            "hash_ids": list(request.blocks),
            **({"tenant": request.tenant} if request.tenant else {}),
        }
        yield json.dumps(row, separators=(",", ":")) + "\n"


class _Outputs:
    """The lengths of answers; one that is not whole gets that of a whole one.

    The whole answer belongs to a prompt of similar length. It is at least as long as the part that
    was made. So an answer that failed after many tokens does not count as short.
    """

    def __init__(self, seen: Iterable[LoggedRequest], random: Random) -> None:
        self._random = random
        self._by_prompt: dict[int, list[int]] = {}
        self._all: list[int] = []
        for each in seen:
            if each.whole:
                self._by_prompt.setdefault(prompt_bucket(each.prompt_tokens), []).append(
                    each.output_tokens
                )
                self._all.append(each.output_tokens)

    def of(self, seen: LoggedRequest) -> int:
        if seen.whole:
            return seen.output_tokens
        alike = self._by_prompt.get(prompt_bucket(seen.prompt_tokens), self._all)
        longer = [tokens for tokens in alike if tokens >= seen.output_tokens]
        return self._random.choice(longer) if longer else seen.output_tokens


def _chunk_tokens(seen: Iterable[LoggedRequest]) -> float:
    long = [each for each in seen if len(each.marks) >= LEAST_CHUNKS]
    chunks = sum(len(each.marks) + 0.5 for each in long)
    return sum(each.prompt_tokens for each in long) / chunks if chunks else USUAL_CHUNK_TOKENS


def _blocks(seen: LoggedRequest, chunk_tokens: float, numbers: dict[bytes, int]) -> Iterator[int]:
    """Yield the prompt's whole blocks, each named by the chunk in which it ends."""
    for block in range(seen.prompt_tokens // BLOCK_TOKENS):
        place = ceil((block + 1) * BLOCK_TOKENS / chunk_tokens) - 1
        if place >= len(seen.marks):
            return
        yield numbers.setdefault(seen.marks[place], len(numbers) + 1)
