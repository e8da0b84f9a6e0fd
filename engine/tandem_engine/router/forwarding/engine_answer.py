"""The answer of an engine as it arrives: its head, then the bytes of its body."""

import asyncio
from collections.abc import Callable

import httptools

_MOST_HEAD_BYTES = 256 * 1024
_MOST_WAITING_BYTES = 512 * 1024


class AnswerCut(ConnectionError):  # noqa: N818 - an event of ordinary operation
    """The connection ended, or sent no valid HTTP, before the answer was complete."""


class EngineAnswer:
    """One answer. httptools calls the methods that begin with `on_`.

    Attributes:
        status: 0 until the head has come.
        content_type: without its parameters.
        ended: all of it has come.
        keep: the connection can be used again after it.
        failure: why no more data comes.
        told: called after each piece of data, and after the end. It must not raise.
        chunks: gets bytes that begin with a chunk before the parser does, and returns whether it
            took them. It may take only bytes that end with a chunk. It must not raise.
    """

    def __init__(
        self, transport: asyncio.Transport, over: Callable[["EngineAnswer"], None]
    ) -> None:
        self._transport = transport
        self._over = over
        self._parts: list[bytes] = []
        self.on_body = self._parts.append
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._waiting_bytes = 0
        self._paused = False
        self._bounded = self._interim = False
        self._waiter: asyncio.Future[None] | None = None
        self.status = 0
        self.content_type = ""
        self.ended = self.keep = False
        self.failure: AnswerCut | None = None
        self.told: Callable[[], None] | None = None
        self.chunks: Callable[[bytes], bool] | None = None
        self._between_chunks = False

    @property
    def at_end(self) -> bool:
        """Return whether all of it has come and was read."""
        return self.ended and not self._parts

    @property
    def over(self) -> bool:
        """Return whether no more data comes."""
        return self.ended or self.failure is not None

    async def head(self) -> None:
        """Wait for the head; raises `AnswerCut`."""
        while not self.status:
            await self._wait()

    async def some(self) -> bytes:
        """Wait for data and return it; return nothing at the end.

        Raises `AnswerCut`. Data that is not read is then lost: if the client has seen nothing yet,
        another engine can serve it.
        """
        while self.failure is not None or not (self._parts or self.ended):
            await self._wait()
        return self.take()

    def take(self) -> bytes:
        """Return the data that came since the last call."""
        parts = self._parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._waiting_bytes = 0
        if self._paused:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()
        return data

    def release(self) -> None:
        """Give the connection back, or close it if data is unread: then the engine stops."""
        self.told = self.chunks = None
        self._over(self)
        # It and the answer hold one another.
        self._parser = None
        self._parts.clear()

    def feed(self, data: bytes) -> None:
        """Parse bytes of the connection.

        The parser knows nothing of whole chunks that `chunks` takes, and need not: after them it
        expects what it expected before.
        """
        if self.chunks is not None and self._between_chunks and self.chunks(data):
            return
        if self.failure is not None or self._parser is None:
            return
        self._waiting_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.ended:
                self._fail(error)
                return
            # What follows an answer was not asked for.
            self.keep = False
        # Half of the next chunk's head makes no call.
        self._between_chunks = self._between_chunks and data.endswith(b"\r\n")
        if not self.status and self._waiting_bytes > _MOST_HEAD_BYTES:
            self._fail(None)
            return
        if self.ended:
            # It and the answer hold one another.
            self._parser = None
        elif self._waiting_bytes > _MOST_WAITING_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._tell()

    def lost(self) -> None:
        """Record that the connection has ended."""
        if self.over:
            return
        if self.status and not self._bounded:
            self.ended, self._parser = True, None
            self._tell()
        else:
            self._fail(None)

    def on_message_begin(self) -> None:
        """Begin; a request has one answer."""
        if self.ended:
            raise AnswerCut("more than one answer came")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header."""
        if self.status:
            return
        name = name.lower()
        if name == b"content-type":
            self.content_type = value.decode("latin-1").partition(";")[0].strip().lower()
        elif name in (b"content-length", b"transfer-encoding"):
            self._bounded = True

    def on_headers_complete(self) -> None:
        """Store the status."""
        assert self._parser is not None  # noqa: S101 - it is what calls
        status = self._parser.get_status_code()
        self._interim = status < 200
        if self._interim:
            self._bounded, self.content_type = False, ""
        else:
            self.status = status

    def on_chunk_header(self) -> None:
        """Note that a chunk has begun."""
        self._between_chunks = False

    def on_chunk_complete(self) -> None:
        """Note that a chunk has ended."""
        self._between_chunks = True

    def on_message_complete(self) -> None:
        """End, unless this was only an interim response."""
        if not self._interim:
            assert self._parser is not None  # noqa: S101 - it is what calls
            self.ended, self.keep = True, self._parser.should_keep_alive()

    async def _wait(self) -> None:
        if self.failure is not None:
            # One that is kept would hold what waited for it, and all that it holds.
            raise AnswerCut(*self.failure.args) from self.failure.__cause__
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _tell(self) -> None:
        if self.told is not None:
            self.told()
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception | None) -> None:
        self.failure, self._parser = AnswerCut("the answer was cut"), None
        self.failure.__cause__ = None if error is None else error.with_traceback(None)
        self._transport.abort()
        self._tell()
