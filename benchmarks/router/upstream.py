"""A trivial engine: prebuilt bytes on a bare asyncio protocol, so that it is never the limit.

A prefill request is answered at once; a decode stream sends its first token at once and then one
every `gap` seconds, in vLLM's chunk format. The request says how long: `max_tokens`, and the gap in
seconds as its `temperature`, a field that every proxy passes through.
"""

import argparse
import asyncio
import json
from typing import Any

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n"
_PREFILL_ANSWER = json.dumps(
    {
        "id": "cmpl-0",
        "object": "text_completion",
        "created": 1,
        "model": "tiny",
        "choices": [{"index": 0, "text": " x", "logprobs": None, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 64, "total_tokens": 65, "completion_tokens": 1},
        "kv_transfer_params": {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [[1, 2]],
            "remote_engine_id": "benchmark",
            "remote_request_id": "cmpl-0",
            "remote_host": "127.0.0.1",
            "remote_port": 5600,
            "tp_size": 1,
        },
    }
).encode()
_CHUNK = (
    b'data: {"id":"cmpl-0123456789abcdef","object":"text_completion","created":1790000000,'
    b'"model":"tiny","choices":[{"index":0,"text":" token","logprobs":null,"finish_reason":%s,'
    b'"stop_reason":null}]%s}\n\n'
)
_USAGE = b',"usage":{"prompt_tokens":64,"total_tokens":%d,"completion_tokens":%d}'
_REPORT = b'data: {"id":"cmpl-0123456789abcdef","choices":[]%s}\n\n'


class Engine(asyncio.Protocol):
    """One connection to the trivial engine."""

    def __init__(self) -> None:
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop sending."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answer each request that is complete."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            at = head.find(b"content-length:")
            size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + size:
                return
            body = self._buffer[end + 4 : end + 4 + size]
            self._buffer = self._buffer[end + 4 + size :]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if not head.startswith(b"post"):
            self._send_document(b"{}")
            return
        document = json.loads(body)
        if (document.get("kv_transfer_params") or {}).get("do_remote_decode"):
            self._send_document(_PREFILL_ANSWER)
        else:
            self._begin_stream(document)

    def _send_document(self, document: bytes) -> None:
        assert self._transport is not None
        head = _HEAD % b"application/json" + b"Content-Length: %d\r\n\r\n" % len(document)
        self._transport.write(head + document)

    def _begin_stream(self, document: dict[str, Any]) -> None:
        assert self._transport is not None
        options = document.get("stream_options") or {}
        stream = (
            document["max_tokens"],
            float(document["temperature"]),
            bool(options.get("continuous_usage_stats")),
            bool(options.get("include_usage")),
        )
        head = _HEAD % b"text/event-stream; charset=utf-8" + b"Transfer-Encoding: chunked\r\n\r\n"
        self._transport.write(head)
        self._send_token(1, stream, self._loop.time())

    def _send_token(
        self, number: int, stream: tuple[int, float, bool, bool], started: float
    ) -> None:
        if self._transport is None:
            return
        tokens, gap_s, continuous, report = stream
        usage = _USAGE % (64 + number, number) if continuous else b""
        self._write(_CHUNK % (b'"length"' if number == tokens else b"null", usage))
        if number < tokens:
            at = started + number * gap_s
            self._loop.call_at(at, self._send_token, number + 1, stream, started)
            return
        if report:
            self._write(_REPORT % (_USAGE % (64 + tokens, tokens)))
        self._write(b"data: [DONE]\n\n")
        self._transport.write(b"0\r\n\r\n")

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))


async def serve(ports: list[int]) -> None:
    """Serve for ever, on one port per role: some routers tell pods apart by their address."""
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Engine, "127.0.0.1", port, backlog=4096) for port in ports]
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ports", type=int, nargs=2, required=True)
    asyncio.run(serve(parser.parse_args().ports))
