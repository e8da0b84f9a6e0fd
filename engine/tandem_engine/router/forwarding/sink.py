"""The destination of an answer: a streaming client, or one whole document."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from aiohttp import web

from tandem_engine.router.forwarding.client_stream import Client, ClientAnswer
from tandem_engine.router.forwarding.upstream import FailureReason, UpstreamFailure
from tandem_engine.router.openai.answers import NAMED, assembly_of
from tandem_engine.router.openai.call import Call
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.errors import ApiError, error_event, named_error_event
from tandem_engine.router.openai.sse import SHAPE_ERRORS, Events

_END_OF_EVENT = b"\n\n"


class Sink(Protocol):
    """Receives the payloads of a stream."""

    @property
    def begun(self) -> bool:
        """Return whether a second try would repeat data at the client."""

    @property
    def stalled_s(self) -> float:
        """Return the total time for which the client read nothing."""

    async def send(self, payloads: list[bytes]) -> None:
        """Send the payloads of events, in order.

        Raises `UpstreamFailure` if the engine broke the shape of an answer, and `ClientGone`; so
        does `finish`.
        """

    def push(self, payloads: list[bytes]) -> bool:
        """Send further payloads of an answer that has begun, without waiting for the client.

        Returns whether the caller must wait for `taken` next. Raises the errors of `send`.
        """

    @property
    def last_with_end(self) -> bool:
        """Return whether the last payloads should be given to `finish`, to leave in one write."""

    @property
    def write(self) -> Callable[[bytes], bool] | None:
        """Return a function that takes whole events as `push` takes payloads, if there is one."""

    async def taken(self) -> None:
        """Wait until the client has read most of the sent data; raises `ClientGone`."""

    async def finish(self, payloads: Sequence[bytes] = ()) -> web.StreamResponse:
        """End the answer with success, after its last payloads."""

    async def fail(self, error: ApiError) -> web.StreamResponse:
        """End an answer that had begun with an error."""


class StreamSink:
    """Passes events on as they come."""

    last_with_end = True

    def __init__(self, client: Client, headers: dict[str, str]) -> None:
        self._client = client
        self._response = ClientAnswer(
            {
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
                "X-Accel-Buffering": "no",
                **headers,
            }
        )

    @property
    def begun(self) -> bool:
        """Return whether the client got any data."""
        return self._response.prepared

    @property
    def stalled_s(self) -> float:
        """Return the total time for which the router waited for the client."""
        return self._client.stalled_s

    async def send(self, payloads: list[bytes]) -> None:
        """Write the events in one piece."""
        await self._client.write(self._response, self._framed(payloads))

    def push(self, payloads: list[bytes]) -> bool:
        """Write the events in one piece."""
        return self._client.push(self._framed(payloads))

    @property
    def write(self) -> Callable[[bytes], bool] | None:
        """Return the function that writes events at once."""
        return self._client.push

    async def taken(self) -> None:
        """Wait for the client."""
        await self._client.taken()

    def _framed(self, payloads: Sequence[bytes]) -> bytes:
        return b"".join([b"data: %b\n\n" % payload for payload in payloads])

    async def finish(self, payloads: Sequence[bytes] = ()) -> web.StreamResponse:
        """Close the stream."""
        await self._client.end(self._response, self._framed(payloads))
        return self._response

    async def fail(self, error: ApiError) -> web.StreamResponse:
        """Send the error in the stream, unless the stream has ended."""
        self._client.hurry()
        if not self._client.ended:
            await self._client.write(self._response, self._last_words(error))
        return await self.finish()

    def _last_words(self, error: ApiError) -> bytes:
        return error_event(error.message, code=error.code or "upstream_error")


class NamedStreamSink(StreamSink):
    """Passes events on with their frames."""

    def __init__(self, client: Client, headers: dict[str, str], *, anthropic: bool) -> None:
        super().__init__(client, headers)
        self._anthropic = anthropic
        self._sent = 0

    @property
    def write(self) -> None:
        """Return `None`: this sink counts each event."""

    def _framed(self, payloads: Sequence[bytes]) -> bytes:
        data = b"".join(payloads)
        self._sent += data.count(_END_OF_EVENT)
        return data

    def _last_words(self, error: ApiError) -> bytes:
        return named_error_event(error, anthropic=self._anthropic, sent=self._sent)


class AnswerSink:
    """Collects the stream for a client that asked for one document."""

    # A malformed last event is known before it counts as a token.
    last_with_end = False

    def __init__(self, client: Client, call: Call, headers: dict[str, str]) -> None:
        self._client = client
        self._assembly = assembly_of(call)
        self._response = ClientAnswer({"Content-Type": "application/json", **headers})
        self.begun = False
        self.stalled_s = 0.0

    async def send(self, payloads: list[bytes]) -> None:
        """Take chunks."""
        self.push(payloads)

    def push(self, payloads: Sequence[bytes]) -> bool:
        """Take chunks."""
        self.begun = True
        try:
            for document in self._documents(payloads):
                self._assembly.add(json.loads(document))
        except SHAPE_ERRORS as error:
            raise UpstreamFailure(FailureReason.MALFORMED) from error
        return False

    @property
    def write(self) -> None:
        """Return `None`: this sink needs the documents of the events."""

    async def taken(self) -> None:
        """Return at once: nothing is sent before the answer is complete."""

    def _documents(self, payloads: Sequence[bytes]) -> Iterable[bytes]:
        return (payload for payload in payloads if payload != b"[DONE]")

    async def finish(self, payloads: Sequence[bytes] = ()) -> web.StreamResponse:
        """Write the whole answer, without waiting for the end of the engine's stream."""
        self.push(payloads)
        try:
            body = json.dumps(self._assembly.answer(), allow_nan=False).encode()
        except SHAPE_ERRORS as error:
            raise UpstreamFailure(FailureReason.MALFORMED) from error
        self._response.length = len(body)
        await self._client.end(self._response, body)
        return self._response

    async def fail(self, error: ApiError) -> web.StreamResponse:
        """Send the error, unless the answer is already being sent."""
        if not self._response.prepared:
            try:
                raise error
            finally:
                # An error and a frame of its traceback would keep each other.
                del error
        self._client.hurry()
        await self._client.end(self._response)
        return self._response


class NamedAnswerSink(AnswerSink):
    """Collects events with their frames."""

    def _documents(self, payloads: Sequence[bytes]) -> Iterable[bytes]:
        return Events().feed(b"".join(payloads))


def sink_of(call: Call, client: Client, headers: dict[str, str]) -> Sink:
    """Return the sink for the answer to a call."""
    if call.kind in NAMED:
        if call.stream:
            anthropic = call.kind is EndpointKind.MESSAGES
            return NamedStreamSink(client, headers, anthropic=anthropic)
        return NamedAnswerSink(client, call, headers)
    if call.stream:
        return StreamSink(client, headers)
    return AnswerSink(client, call, headers)
