"""Where an answer goes: straight on to a streaming client, or into one whole document."""

import json
from typing import Protocol

from aiohttp import web

from tandem_engine.router.forwarding.client_stream import Client
from tandem_engine.router.forwarding.upstream import FailureReason, UpstreamFailure
from tandem_engine.router.openai.assembly import Assembly
from tandem_engine.router.openai.call import EndpointKind
from tandem_engine.router.openai.errors import ApiError, error_event
from tandem_engine.router.openai.sse import SHAPE_ERRORS


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
            event = error_event(error.message, code=error.code or "upstream_error")
            await self._client.write(self._response, event)
        return await self.finish()


class AnswerSink:
    """Collects the stream for a client that wants one document."""

    def __init__(
        self, client: Client, kind: EndpointKind, headers: dict[str, str], *, token_ids: bool
    ) -> None:
        self._client = client
        self._assembly = Assembly(kind, token_ids=token_ids)
        self._response = web.StreamResponse(headers={"Content-Type": "application/json", **headers})
        self.begun = False
        self.stalled_s = 0.0

    async def send(self, payloads: list[bytes]) -> None:
        """Take chunks."""
        self.begun = True
        try:
            for payload in payloads:
                if payload != b"[DONE]":
                    self._assembly.add(json.loads(payload))
        except SHAPE_ERRORS as error:
            raise UpstreamFailure(FailureReason.MALFORMED) from error

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
