r"""Server-sent events of the engine, with as little parsing as exact counting allows.

On request, vLLM puts `"usage": {..., "completion_tokens": N}` on every chunk. One regular
expression finds it, reads the token count, and cuts it out for clients that did not ask. It cannot
match inside a JSON string, where every quote follows a backslash. Only a chunk without usage is
parsed as JSON.

Most events of most streams have one shape: a piece of one text and nothing else. One expression
matches this whole shape, which is much cheaper than a search for other fields.
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
_STRING = rb'"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+"'
_EVENT = (
    rb'(?P<event>data: \{"id":%(s)b,"object":%(s)b,"created":\d++,"model":%(s)b,'
    rb'"choices":\[\{"index":0,'
    rb'(?:"text":%(s)b|"delta":\{"(?:content|reasoning|reasoning_content)":%(s)b\})'
    rb'(?:,"(?:logprobs|finish_reason|stop_reason|prompt_token_ids|token_ids)":null)*+\}\]'
    rb'(?P<usage>,"usage":\{"prompt_tokens":\d++,"total_tokens":\d++,'
    rb'"completion_tokens":(?P<tokens>\d{1,9}+)'
    rb'(?:,"(?:prompt|completion)_tokens_details":null)*+\})\}\n\n)' % {b"s": _STRING}
)
_ORDINARY = re.compile(_EVENT)
_CHUNK = re.compile(rb"(?P<size>[0-9A-Fa-f]{1,6}+)\r\n%b\r\n" % _EVENT)
_END = b"}\n\n"
MOST_TOKENS = 10**9 - 1
LARGEST_EVENT_BYTES = 32 * 1024 * 1024
_GENERATED = ("content", "reasoning", "reasoning_content", "tool_calls", "refusal")

SHAPE_ERRORS = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
)
"""Errors from an engine's JSON that is broken or does not have the expected shape."""


class Events:
    """Cuts a byte stream into the payloads of its `data:` events.

    Attributes:
        parts: the beginning of an event that is incomplete.
    """

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._held_bytes = 0
        self._last = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the payload of each event that is now complete.

        Raises `ValueError` for an event without end: a broken engine could fill the memory.
        """
        blocks: list[bytes] = []
        if self.parts and not self._ends_with(data):
            rest = data
        else:
            if self.parts:
                data = b"".join((*self.parts, data))
                self.parts.clear()
                self._held_bytes, self._last = 0, b""
            *blocks, rest = _with_newlines(data).split(b"\n\n")
        if rest:
            self.parts.append(rest)
            self._held_bytes += len(rest)
            self._last = (self._last + rest[-3:])[-3:]
        for block in blocks:
            if block.startswith(b"data:") and b"\n" not in block:
                yield block[5:].lstrip(b" ")
                continue
            lines = [line[5:].lstrip(b" ") for line in block.split(b"\n") if line[:5] == b"data:"]
            if lines:
                # It goes on in one line, and a line break in JSON is worth a space.
                yield b" ".join(lines)
        if self._held_bytes > LARGEST_EVENT_BYTES:
            raise ValueError("an event without end")

    def _ends_with(self, data: bytes) -> bool:
        """Return whether the incomplete event may end within `data`.

        A large event comes in hundreds of pieces. To join them at each piece would take seconds.
        """
        return b"\n\n" in _with_newlines(self._last + data)


def _with_newlines(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n") if b"\r" in data else data


@dataclass(slots=True)
class Chunk:
    """The meaning of one event for counting and for the client.

    Attributes:
        payload: the part that the client may see; `None` for an unasked usage report.
        usage: the report at the stream's end, or on a chunk whose client did not ask for it.
    """

    payload: bytes | None
    done: bool = False
    error: bool = False
    usage_report: bool = False
    tokens: bool = False
    finish_reason: str | None = None


class TokenCount:
    """Counts the output tokens of one stream and finds the chunks with new ones.

    Attributes:
        output_tokens: exact from the last usage; the sum over several choices.
        prompt_tokens, cached_tokens: exact, `None` until the engine reports them.
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

    def ordinary(self, data: bytes, *, chunked: bool = False) -> bytes | None:
        """Count whole events of the usual shape, and return them as the client should see them.

        With `chunked`, each of them comes as one chunk of HTTP. Returns `None` and counts nothing
        if one of them may mean more: then the caller uses `read`.
        """
        if not self._single or self.prompt_tokens is None:
            return None
        shape = _CHUNK if chunked else _ORDINARY
        pieces, at, tokens = [], 0, self.output_tokens
        while at < len(data):
            event = shape.match(data, at)
            if event is None:
                return None
            begin, end = event.span("event")
            if chunked and int(event["size"], 16) != end - begin:
                return None
            pieces.append(data[begin : end if self._continuous_usage else event.start("usage")])
            tokens = max(tokens, int(event["tokens"]))
            at = event.end()
        self.output_tokens = tokens
        if self._continuous_usage:
            return b"".join(pieces)
        pieces.append(b"")
        return _END.join(pieces)

    def read(self, payload: bytes) -> Chunk:
        """Return the meaning of `payload` and count its tokens; raises one of `SHAPE_ERRORS`."""
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
    """Return prompt tokens and cached tokens of a usage object; `None` for missing ones.

    Raises one of `SHAPE_ERRORS`.
    """
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return _tokens(usage.get("prompt_tokens")), _tokens(cached)


def _tokens(count: Any) -> int | None:
    if not isinstance(count, int) or isinstance(count, bool):
        return None
    if not 0 <= count <= MOST_TOKENS:
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
