"""What reads a stream and what puts it together, for each endpoint."""

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
    """Counts the output tokens of one stream and tells which events carried new ones."""

    output_tokens: int
    prompt_tokens: int | None
    cached_tokens: int | None

    @property
    def longest_tokens(self) -> int:
        """Return the output tokens of the longest choice so far."""

    def read(self, payload: bytes) -> Chunk:
        """Return what `payload` means and count its tokens; raises one of `sse.SHAPE_ERRORS`."""


class WholeAnswer(Protocol):
    """An answer in the making."""

    def add(self, chunk: dict[str, Any]) -> None:
        """Take a part; raises one of `sse.SHAPE_ERRORS`."""

    def answer(self) -> dict[str, Any]:
        """Return the whole; raises one of `sse.SHAPE_ERRORS`."""


def count_of(call: Call) -> StreamCount:
    """Return a counter for one try's stream."""
    if call.kind in NAMED:
        return NamedCount(_MEANINGS[call.kind])
    return TokenCount(
        choices=call.choices,
        include_usage=call.include_usage or not call.stream,
        continuous_usage=call.continuous_usage,
    )


def assembly_of(call: Call) -> WholeAnswer:
    """Return what puts the answer to a call together that asked for no stream."""
    if call.kind is EndpointKind.RESPONSES:
        return ResponsesAssembly()
    if call.kind is EndpointKind.MESSAGES:
        return MessagesAssembly()
    return Assembly(call.kind, token_ids=call.token_ids)
