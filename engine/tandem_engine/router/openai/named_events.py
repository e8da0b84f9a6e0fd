"""Streams with named events: the meaning of each event for counting, and the bytes to pass on.

The two APIs with named events report counts only at the end. Until then, each event with a part of
the answer counts as one token.
"""

import json
from typing import Any, Protocol

from tandem_engine.router.openai.sse import LARGEST_EVENT_BYTES, MOST_TOKENS, Chunk

Event = dict[str, Any]


class Meaning(Protocol):
    """The meaning of the events of one API."""

    starts: frozenset[str]
    """Events that an engine sends before it has made any token."""
    ends: frozenset[str]

    def tokens(self, event: Event) -> bool:
        """Return whether an event carries a part of the answer."""

    def usage(self, event: Event) -> Event | None:
        """Return the usage in an event, if it has one."""

    def aborted(self, event: Event) -> bool:
        """Return whether the engine ended the answer before it was complete."""

    def prompt_tokens(self, usage: Event) -> tuple[int | None, int | None]:
        """Return the prompt tokens, and the cached ones of them."""


class NamedCount:
    """Counts the tokens of one try's stream; it keeps the events before the first token back.

    So the client has seen nothing if a try fails before its first token, and the router can try
    again.

    Attributes:
        output_tokens: exact after the usage of the engine.
        prompt_tokens, cached_tokens: exact, `None` until then.
    """

    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._shown = False
        self.output_tokens = 0
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None

    @property
    def longest_tokens(self) -> int:
        """Return the output tokens of the one answer."""
        return self.output_tokens

    def ordinary(self, data: bytes, *, chunked: bool = False) -> None:
        """Return `None`: no named event is so simple."""

    def read(self, payload: bytes) -> Chunk:
        """Return the meaning of `payload`, with its frame; raises one of `sse.SHAPE_ERRORS`."""
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
        framed = b"event: " + name.encode() + b"\ndata: " + payload + b"\n\n"
        if name in meaning.starts and not self._shown:
            self._hold(framed)
            return Chunk(None)
        self._shown = True
        shown = b"".join((*self._held, framed))
        self._held.clear()
        return Chunk(shown, done=name in meaning.ends, tokens=fresh)

    def _hold(self, framed: bytes) -> None:
        self._held_bytes += len(framed)
        if self._held_bytes > LARGEST_EVENT_BYTES:
            raise ValueError("a stream that begins without end")
        self._held.append(framed)


def whole(count: Any) -> int | None:
    """Return a number of tokens, `None` for another value; raises `ValueError` if it is absurd."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        return None
    if count > MOST_TOKENS:
        raise ValueError("a number of tokens beyond all sense")
    return count
