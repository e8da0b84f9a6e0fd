"""The counter of a stream and the assembly of an answer, for each endpoint."""

from typing import Any, Protocol

from tandem_engine.router.openai.assembly import Assembly
from tandem_engine.router.openai.call import Call
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.messages_stream import MessagesAssembly, MessagesMeaning
from tandem_engine.router.openai.named_events import Meaning, NamedCount
from tandem_engine.router.openai.responses_stream import ResponsesAssembly, ResponsesMeaning
from tandem_engine.router.openai.sse import Chunk, TokenCount

NAMED = frozenset((EndpointKind.RESPONSES, EndpointKind.MESSAGES))
"""Endpoints whose events have names."""

_MEANINGS: dict[EndpointKind, Meaning] = {
    EndpointKind.RESPONSES: ResponsesMeaning(),
    EndpointKind.MESSAGES: MessagesMeaning(),
}


class StreamCount(Protocol):
    """Counts the output tokens of one stream and finds the events with new ones."""

    output_tokens: int
    prompt_tokens: int | None
    cached_tokens: int | None

    @property
    def longest_tokens(self) -> int:
        """Return the output tokens of the longest choice so far."""

    def ordinary(self, data: bytes, *, chunked: bool = False) -> bytes | None:
        """Count whole events of the usual shape, and return them as the client should see them.

        With `chunked`, each of them comes as one chunk of HTTP. Returns `None` and counts nothing
        if one of them may mean more: then the caller uses `read`.
        """

    def read(self, payload: bytes) -> Chunk:
        """Return the meaning of `payload` and count its tokens; raises a `sse.SHAPE_ERRORS`."""


class WholeAnswer(Protocol):
    """An answer that is being assembled."""

    def add(self, chunk: dict[str, Any]) -> None:
        """Add a part; raises one of `sse.SHAPE_ERRORS`."""

    def answer(self) -> dict[str, Any]:
        """Return the whole answer; raises one of `sse.SHAPE_ERRORS`."""


def count_of(call: Call) -> StreamCount:
    """Return a counter for the stream of one try."""
    if call.kind in NAMED:
        return NamedCount(_MEANINGS[call.kind])
    return TokenCount(
        choices=call.choices,
        include_usage=call.include_usage or not call.stream,
        continuous_usage=call.continuous_usage,
    )


def assembly_of(call: Call) -> WholeAnswer:
    """Return the assembly of the answer to a call that asked for no stream."""
    if call.kind is EndpointKind.RESPONSES:
        return ResponsesAssembly()
    if call.kind is EndpointKind.MESSAGES:
        return MessagesAssembly()
    return Assembly(call.kind, token_ids=call.token_ids)
