r"""Server-sent events from the engine, read with as little parsing as exact counting allows.

vLLM puts `"usage": {..., "completion_tokens": N}` on every chunk when asked. One regular
expression finds it, which gives the token count and lets it be cut out for clients that did not
ask. It cannot match inside a JSON string, where every quote is preceded by a backslash. Only a
chunk without usage is parsed as JSON.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_USAGE = re.compile(rb',\s*"usage":\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|null)')
_COMPLETION_TOKENS = re.compile(rb'"completion_tokens":\s*(\d{1,9})\b')
_NO_CHOICES = re.compile(rb'"choices":\s*\[\s*\]')
_FINISH = re.compile(rb'"finish_reason":\s*"(\w+)"')
_ERROR = re.compile(rb'\s*\{\s*"error"\s*:')
_MOST_TOKENS = 10**9 - 1
_GENERATED = ("content", "reasoning", "reasoning_content", "tool_calls", "refusal")

SHAPE_ERRORS = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
)
"""What comes of reading an engine's JSON that is broken or not of the shape it should have."""


class Events:
    """Cuts a byte stream into the payloads of its `data:` events."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the payload of each event that is now complete."""
        data = self._rest + data if self._rest else data
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        *blocks, self._rest = data.split(b"\n\n")
        for block in blocks:
            if block.startswith(b"data:") and b"\n" not in block:
                yield block[5:].lstrip(b" ")
                continue
            lines = [line[5:].lstrip(b" ") for line in block.split(b"\n") if line[:5] == b"data:"]
            if lines:
                yield b"\n".join(lines)


@dataclass(slots=True)
class Chunk:
    """What one event means for counting and for the client.

    Attributes:
        payload: what the client may see; `None` for a usage report nobody asked for.
        usage: the report at the stream's end, or on a chunk where the client wants none.
    """

    payload: bytes | None
    done: bool = False
    error: bool = False
    usage_report: bool = False
    tokens: bool = False
    finish_reason: str | None = None


class TokenCount:
    """Counts the output tokens of one stream and tells which chunks carried new ones.

    Attributes:
        output_tokens: exact from the last usage seen; the sum over choices where there are more.
        prompt_tokens, cached_tokens: exact, `None` until the engine said them.
    """

    def __init__(self, *, choices: int, include_usage: bool, continuous_usage: bool) -> None:
        self._single = choices == 1
        self._include_usage = include_usage
        self._continuous_usage = continuous_usage
        self._per_choice: dict[int, int] = {}
        self.output_tokens = 0
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.reported = False

    @property
    def longest_tokens(self) -> int:
        """Return the output tokens of the longest choice so far."""
        return self.output_tokens if self._single else max(self._per_choice.values(), default=0)

    def read(self, payload: bytes) -> Chunk:
        """Return what `payload` means and count its tokens; raises one of `SHAPE_ERRORS`."""
        if payload == b"[DONE]":
            return Chunk(payload, done=True)
        if _ERROR.match(payload):
            return Chunk(payload, error=True)
        if _NO_CHOICES.search(payload):
            return self._report(payload)
        finish = _FINISH.search(payload)
        usage = _USAGE.search(payload)
        if usage is not None and self._single and (count := _COMPLETION_TOKENS.search(usage[1])):
            total = int(count[1])
            if self.prompt_tokens is None:
                self._take_prompt(json.loads(usage[1]))
            fresh = total > self.output_tokens
            self.output_tokens = max(total, self.output_tokens)
        else:
            fresh = self._read_document(payload)
        if usage is not None and not self._continuous_usage:
            payload = payload[: usage.start()] + payload[usage.end() :]
        return Chunk(payload, tokens=fresh, finish_reason=finish[1].decode() if finish else None)

    def _report(self, payload: bytes) -> Chunk:
        usage = json.loads(payload).get("usage")
        if isinstance(usage, dict):
            self._take_prompt(usage)
            if (count := _tokens(usage.get("completion_tokens"))) is not None:
                self.output_tokens = count
                self.reported = True
        return Chunk(payload if self._include_usage else None, usage_report=True)

    def _take_prompt(self, usage: dict[str, Any]) -> None:
        self.prompt_tokens, cached = prompt_usage(usage)
        if cached is not None:
            self.cached_tokens = cached

    def _read_document(self, payload: bytes) -> bool:
        document = json.loads(payload)
        usage = document.get("usage") or {}
        if usage and self.prompt_tokens is None:
            self._take_prompt(usage)
        fresh = 0
        for choice in document.get("choices") or ():
            index = choice.get("index", 0)
            seen = self._per_choice.get(index, 0)
            total = _tokens(usage.get("completion_tokens"))
            if total is None:
                total = seen + _generated(choice)
            if total > seen:
                self._per_choice[index] = total
                fresh += total - seen
        self.output_tokens += fresh
        return fresh > 0


def prompt_usage(usage: dict[str, Any]) -> tuple[int | None, int | None]:
    """Return prompt tokens and cached tokens of a usage object, `None` where it says nothing.

    Raises one of `SHAPE_ERRORS`.
    """
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return _tokens(usage.get("prompt_tokens")), _tokens(cached)


def _tokens(count: Any) -> int | None:
    if not isinstance(count, int):
        return None
    if not 0 <= count <= _MOST_TOKENS:
        raise ValueError("a number of tokens beyond all sense")
    return count


def _generated(choice: dict[str, Any]) -> int:
    """Return the tokens of a choice in a chunk without usage: its ids, else one per content."""
    ids = choice.get("token_ids")
    if ids:
        return len(ids)
    delta = choice.get("delta")
    if isinstance(delta, dict):
        return int(any(delta.get(key) for key in _GENERATED))
    return int(bool(choice.get("text")))
