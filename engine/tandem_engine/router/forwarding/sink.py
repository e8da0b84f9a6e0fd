"""Where an answer goes: straight on to a streaming client, or into one whole document."""

import json
from collections.abc import Iterable
from typing import Protocol

from aiohttp import web

from tandem_engine.router.forwarding.client_stream import Client
from tandem_engine.router.forwarding.upstream import FailureReason, UpstreamFailure
from tandem_engine.router.openai.answers import NAMED, assembly_of
from tandem_engine.router.openai.call import Call
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.errors import ApiError, error_event, named_error_event
from tandem_engine.router.openai.sse import SHAPE_ERRORS, Events

_END_OF_EVENT = b"\n\n"


class Sink(Protocol):
    """Takes the payloads of a stream."""

    @property
    def begun(self) -> bool:
        """Return whether a second try would show the client something twice."""

    @property
    def stalled_s(self) -> float:
        """Return for how long, in all, the client took nothing of what it was sent."""

    async def send(self, payloads: list[bytes]) -> None:
        """Take the payloads of events, in order.

        Raises `UpstreamFailure` where the engine did not keep to the shape of an answer, and
        `ClientGone`; so does `finish`.
        """

    async def finish(self) -> web.StreamResponse:
        """End well."""

    async def fail(self, error: ApiError) -> web.StreamResponse:
        """End an answer that had begun."""


class StreamSink:
    """Passes events on as they come."""

    def __init__(self, client: Client, headers: dict[str, str]) -> None:
        self._client = client
        self._response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
                "X-Accel-Buffering": "no",
                **headers,
            }
        )

    @property
    def begun(self) -> bool:
        """Return whether the client has been sent anything."""
        return self._response.prepared

    @property
    def stalled_s(self) -> float:
        """Return for how long the client was waited for."""
        return self._client.stalled_s

    async def send(self, payloads: list[bytes]) -> None:
        """Write the events in one piece."""
        if len(payloads) == 1:
            data = b"data: " + payloads[0] + b"\n\n"
        else:
            data = b"".join(b"data: " + payload + b"\n\n" for payload in payloads)
        await self._client.write(self._response, data)

    async def finish(self) -> web.StreamResponse:
        """Close the stream."""
        await self._client.end(self._response)
        return self._response

    async def fail(self, error: ApiError) -> web.StreamResponse:
        """Say in the stream why it ends here, unless it has ended."""
        self._client.hurry()
        if not self._client.ended:
            await self._client.write(self._response, self._last_words(error))
        return await self.finish()

    def _last_words(self, error: ApiError) -> bytes:
        return error_event(error.message, code=error.code or "upstream_error")


class NamedStreamSink(StreamSink):
    """Passes events on that have their frames."""

    def __init__(self, client: Client, headers: dict[str, str], *, anthropic: bool) -> None:
        super().__init__(client, headers)
        self._anthropic = anthropic
        self._sent = 0

    async def send(self, payloads: list[bytes]) -> None:
        """Write the events in one piece."""
        data = b"".join(payloads)
        self._sent += data.count(_END_OF_EVENT)
        await self._client.write(self._response, data)

    def _last_words(self, error: ApiError) -> bytes:
        return named_error_event(error, anthropic=self._anthropic, sent=self._sent)


class AnswerSink:
    """Collects the stream for a client that wants one document."""

    def __init__(self, client: Client, call: Call, headers: dict[str, str]) -> None:
        self._client = client
        self._assembly = assembly_of(call)
        self._response = web.StreamResponse(headers={"Content-Type": "application/json", **headers})
        self.begun = False
        self.stalled_s = 0.0

    async def send(self, payloads: list[bytes]) -> None:
        """Take chunks."""
        self.begun = True
        try:
            for document in self._documents(payloads):
                self._assembly.add(json.loads(document))
        except SHAPE_ERRORS as error:
            raise UpstreamFailure(FailureReason.MALFORMED) from error

    def _documents(self, payloads: list[bytes]) -> Iterable[bytes]:
        return (payload for payload in payloads if payload != b"[DONE]")

    async def finish(self) -> web.StreamResponse:
        """Write the whole answer: what the engine does after it is not waited for."""
        try:
            body = json.dumps(self._assembly.answer()).encode()
        except SHAPE_ERRORS as error:
            raise UpstreamFailure(FailureReason.MALFORMED) from error
        self._response.content_length = len(body)
        await self._client.write(self._response, body)
        await self._client.end(self._response)
        return self._response

    async def fail(self, error: ApiError) -> web.StreamResponse:
        """Refuse, unless the answer is on its way: half an answer is none."""
        if not self._response.prepared:
            raise error
        self._client.hurry()
        await self._client.end(self._response)
        return self._response


class NamedAnswerSink(AnswerSink):
    """Collects events that have their frames."""

    def _documents(self, payloads: list[bytes]) -> Iterable[bytes]:
        return Events().feed(b"".join(payloads))


def sink_of(call: Call, client: Client, headers: dict[str, str]) -> Sink:
    """Return where the answer to a call goes."""
    if call.kind in NAMED:
        if call.stream:
            anthropic = call.kind is EndpointKind.MESSAGES
            return NamedStreamSink(client, headers, anthropic=anthropic)
        return NamedAnswerSink(client, call, headers)
    if call.stream:
        return StreamSink(client, headers)
    return AnswerSink(client, call, headers)
