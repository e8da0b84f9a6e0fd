"""Reads the stream of a decode pod: ordinary pieces go to the client without waking a task.

A task wakes only to wait for the client, to end an answer, or to handle an error. Most tokens need
none of this.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tandem_engine.router.forwarding.engine_answer import EngineAnswer
from tandem_engine.router.forwarding.sink import Sink
from tandem_engine.router.forwarding.upstream import (
    FailureReason,
    UpstreamFailure,
    fault_in_stream,
    following,
)
from tandem_engine.router.openai.answers import StreamCount
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.openai.sse import SHAPE_ERRORS, Chunk, Events


@dataclass(frozen=True, slots=True)
class Piece:
    """Data that arrived together.

    Attributes:
        payloads: events to pass on.
        fresh: it has new tokens.
        done: the stream ends.
        broken: makes the fault of the stream after the payloads. A piece keeps no error, because
            frames of the error's traceback keep the piece.
        passed_on: the client has it, and the router must wait for the client.
    """

    payloads: list[bytes] = field(default_factory=list)
    fresh: bool = False
    done: bool = False
    broken: Callable[[], ApiError | UpstreamFailure] | None = None
    passed_on: bool = False


class Pump:
    """Reads one stream, for one task.

    Args:
        sink: receives ordinary pieces directly.
        passed: called after each of them, with whether it had new tokens.
    """

    def __init__(
        self,
        answer: EngineAnswer,
        count: StreamCount,
        sink: Sink,
        passed: Callable[[bool], None],
    ) -> None:
        self._answer = answer
        self._count = count
        self._sink = sink
        # Events that have names get their frames elsewhere, and are counted there.
        self._write = sink.write
        self._passed = passed
        self._events = Events()
        self._woken: asyncio.Future[Piece | None] | None = None

    async def next(self) -> Piece:
        """Return the next piece; raises `UpstreamFailure` if the stream is cut."""
        data = await following(self._answer)
        if not data:
            raise UpstreamFailure(FailureReason.DISCONNECTED)
        return self._read(data)

    async def unusual(self) -> Piece:
        """Pass ordinary pieces on, and return the first other one.

        Raises the errors of `next` and `Sink.push`.
        """
        woken = self._woken = asyncio.get_running_loop().create_future()
        self._answer.told = self._told
        try:
            self._told()
            # What came before is passed on, so nothing can overtake it.
            self._answer.chunks = self._passed_on
            piece: Piece | None = await woken
        finally:
            self._answer.told = self._answer.chunks = self._woken = None
            # An error and a frame of its traceback would keep each other.
            del woken
        return piece if piece is not None else await self.next()

    def _told(self) -> None:
        """Handle arrived data, and wake the task if it has to do more."""
        woken = self._woken
        if woken is None or woken.done():
            return
        try:
            self._take(woken)
            if self._answer.over and not woken.done():
                woken.set_result(None)
        except Exception as error:
            # It is the task's, whatever it is: the connection would swallow it.
            woken.set_exception(error)
            del woken

    def _passed_on(self, chunks: bytes) -> bool:
        """Pass whole chunks of ordinary events on, and return whether they are that."""
        woken = self._woken
        if woken is None or woken.done():
            return False
        try:
            return self._ordinary(woken, chunks, chunked=True)
        except Exception as error:
            woken.set_exception(error)
            del woken
            return True

    def _take(self, woken: "asyncio.Future[Piece | None]") -> None:
        """Pass arrived data on."""
        data = self._answer.take()
        if not data or self._ordinary(woken, data, chunked=False):
            return
        piece = self._read(data)
        if piece.done or piece.broken is not None:
            woken.set_result(piece)
        else:
            behind = bool(piece.payloads) and self._sink.push(piece.payloads)
            if behind:
                woken.set_result(Piece(fresh=piece.fresh, passed_on=True))
            else:
                self._passed(piece.fresh)

    def _ordinary(
        self, woken: "asyncio.Future[Piece | None]", data: bytes, *, chunked: bool
    ) -> bool:
        """Pass data on that is whole ordinary events, and return whether it is."""
        if self._write is None or self._events.parts:
            return False
        before = self._count.output_tokens
        events = self._count.ordinary(data, chunked=chunked)
        if events is None:
            return False
        fresh = self._count.output_tokens > before
        if self._write(events):
            woken.set_result(Piece(fresh=fresh, passed_on=True))
        else:
            self._passed(fresh)
        return True

    def _read(self, data: bytes) -> Piece:
        payloads: list[bytes] = []
        fresh = done = False
        try:
            for payload in self._events.feed(data):
                chunk = self._count.read(payload)
                if chunk.error or chunk.finish_reason == "abort":
                    return Piece(payloads, fresh, done, partial(_broken_by, chunk, payload))
                done = done or chunk.done
                fresh = fresh or chunk.tokens
                if chunk.payload is not None:
                    payloads.append(chunk.payload)
        except SHAPE_ERRORS:
            return Piece(payloads, fresh, done, partial(UpstreamFailure, FailureReason.MALFORMED))
        return Piece(payloads, fresh, done)


def _broken_by(chunk: Chunk, payload: bytes) -> ApiError | UpstreamFailure:
    """Return the fault in an event that ends a stream early."""
    if not chunk.error:
        return UpstreamFailure(FailureReason.ABORTED)
    return fault_in_stream(payload) or UpstreamFailure(FailureReason.STATUS)
