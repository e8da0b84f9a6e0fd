"""Streams whose events have names: what each means for counting, and the bytes of its passing on.

The two APIs that have them tell no counts on the way, only at the end: until then each event that
carries a part of the answer counts as one token.
"""

import json
from typing import Any, Protocol

from tandem_engine.router.openai.sse import Chunk

Event = dict[str, Any]


class Meaning(Protocol):
    """What the events of one API mean."""

    starts: frozenset[str]
    """Events that an engine sends before it has made any token."""
    ends: frozenset[str]

    def tokens(self, event: Event) -> bool:
        """Return whether an event carries a part of the answer."""

    def usage(self, event: Event) -> Event | None:
        """Return the usage that an event tells, if it does."""

    def aborted(self, event: Event) -> bool:
        """Return whether the engine ended the answer before it was whole."""

    def prompt_tokens(self, usage: Event) -> tuple[int | None, int | None]:
        """Return the tokens of the prompt, and those of them that a cache had."""


class NamedCount:
    """Counts the tokens of one try's stream; it keeps the events before the first token back.

    So a try that fails before it has shown the client nothing, and another one can be made.

    Attributes:
        output_tokens: exact once the engine told its usage.
        prompt_tokens, cached_tokens: exact, `None` until then.
    """

    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning
        self._held = b""
        self.output_tokens = 0
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None

    @property
    def longest_tokens(self) -> int:
        """Return the output tokens of the one answer."""
        return self.output_tokens

    def read(self, payload: bytes) -> Chunk:
        """Return what `payload` means, with its frame; raises one of `sse.SHAPE_ERRORS`."""
        event = json.loads(payload)
        if event.get("error") is not None or event["type"] == "error":
            return Chunk(payload, error=True)
        name, meaning = event["type"], self._meaning
        if meaning.aborted(event):
            return Chunk(payload, finish_reason="abort")
        fresh = meaning.tokens(event)
        self.output_tokens += fresh
        usage = meaning.usage(event)
        if usage is not None:
            self.prompt_tokens, self.cached_tokens = meaning.prompt_tokens(usage)
            total = whole(usage.get("output_tokens"))
            if total:
                # Of what was never shown the end is the first that is heard.
                fresh = fresh or not self.output_tokens
                self.output_tokens = total
        framed = self._held + b"event: " + name.encode() + b"\ndata: " + payload + b"\n\n"
        if name in meaning.starts:
            self._held = framed
            return Chunk(None)
        self._held = b""
        return Chunk(framed, done=name in meaning.ends, tokens=fresh)


def whole(count: Any) -> int | None:
    """Return a number of tokens, `None` for what is none."""
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None
