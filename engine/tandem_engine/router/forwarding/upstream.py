"""The two legs of a request over HTTP: one prefill answer, then one decode stream.

Every fault becomes an `UpstreamFailure`, which says whether the engine can have seen the request. A
fault of the request itself becomes an `ApiError`.
"""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any

import aiohttp

from tandem_engine.router.forwarding.alarms import Alarms
from tandem_engine.router.forwarding.engine_answer import AnswerCut, EngineAnswer
from tandem_engine.router.forwarding.engine_connection import EngineConnections, Unreachable
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.openai.kv_fields import KV_PARAMS
from tandem_engine.router.openai.prefill_answer import PrefillAnswer, read_prefill_answer
from tandem_engine.router.openai.sse import SHAPE_ERRORS
from tandem_engine.router.pods.pod import Pod

_LARGEST_ANSWER_BYTES = 32 * 1024 * 1024
_LARGEST_ERROR_BYTES = 64 * 1024
# What an engine says of an error comes with it, or the status has to do.
_ERROR_S = 1.0
_NO_MODEL = "tandem-kv-given-back"
_LET_GO_S = 5.0
_BUSY = frozenset({429, 503})
# It is the router that an engine asks for a key.
_NO_KEY = 401
# Below uvicorn's 5 s, as for requests.
_KEEPALIVE_S = 3.0
_HEALTH_TIMEOUT_S = 1.0


class FailureReason(StrEnum):
    """Why an engine pod did not serve a request."""

    REFUSED = "refused"
    DISCONNECTED = "disconnected"
    STATUS = "status"
    BUSY = "busy"
    ABORTED = "aborted"
    MALFORMED = "malformed"
    SILENT = "silent"
    EMPTY = "empty"


class UpstreamFailure(Exception):  # noqa: N818 - named for what happened, not a bug
    """An engine pod did not serve a request."""

    def __init__(self, reason: FailureReason, *, status: int | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.status = status

    @property
    def never_sent(self) -> bool:
        """Return whether the engine cannot have seen the request."""
        return self.reason is FailureReason.REFUSED


class Upstream:
    """HTTP to engine pods.

    Args:
        key: the key of the pool's engines; `None`: they need none.

    Attributes:
        alarms: the deadlines of waits for engines.
    """

    def __init__(self, *, key: str | None = None) -> None:
        headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        self.alarms = Alarms()
        self._connections = EngineConnections({"Accept": "*/*", **headers}, self.alarms)
        # For reads of engines besides requests, every few seconds.
        self._session = aiohttp.ClientSession(
            # No cookie of an engine goes out with the next request.
            cookie_jar=aiohttp.DummyCookieJar(),
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=_KEEPALIVE_S, use_dns_cache=True
            ),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=("User-Agent",),
            headers=headers,
        )

    async def close(self) -> None:
        """Close every connection."""
        self._connections.close()
        await self._session.close()

    async def prefill(
        self,
        pod: Pod,
        *,
        kind: EndpointKind,
        body: bytes,
        headers: Mapping[str, str],
        connect_s: float,
    ) -> PrefillAnswer:
        """Return the answer of a prefill pod."""
        raw = await _whole(await self._post(pod, kind.path, body, headers, connect_s))
        try:
            return read_prefill_answer(kind, raw)
        except SHAPE_ERRORS as error:
            raise UpstreamFailure(FailureReason.MALFORMED) from error

    async def decode(
        self, pod: Pod, *, path: str, body: bytes, headers: Mapping[str, str], connect_s: float
    ) -> EngineAnswer:
        """Return the open stream of a decode pod; the caller releases it."""
        answer = await self._post(pod, path, body, headers, connect_s)
        if answer.content_type != "text/event-stream":
            answer.release()
            raise UpstreamFailure(FailureReason.MALFORMED)
        return answer

    async def ask(
        self, pod: Pod, *, path: str, body: bytes, headers: Mapping[str, str], connect_s: float
    ) -> bytes:
        """Return the JSON of an answer that is not streamed."""
        answer = await self._post(pod, path, body, headers, connect_s)
        if answer.content_type != "application/json":
            answer.release()
            raise UpstreamFailure(FailureReason.MALFORMED)
        return await _whole(answer)

    async def let_go(self, pod: Pod, kv_params: dict[str, Any], *, connect_s: float) -> None:
        """Ask a pod to free KV blocks; if it does not, their lease ends later.

        vLLM passes KV parameters to its connector even in a request that it refuses, such as one
        for an unknown model. The connector of Tandem's engines acts on these parameters.
        """
        body = {"model": _NO_MODEL, "prompt": [0], "max_tokens": 1, KV_PARAMS: kv_params}
        with suppress(UpstreamFailure, ApiError, TimeoutError):
            async with asyncio.timeout(_LET_GO_S):
                answer = await self._post(
                    pod, EndpointKind.COMPLETIONS.path, json.dumps(body).encode(), {}, connect_s
                )
                answer.release()

    async def get(self, pod: Pod, *, path: str, most_bytes: int, timeout_s: float) -> bytes:
        """Return a small document of a pod's engine."""
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with self._session.get(
                pod.url + path, timeout=timeout, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise UpstreamFailure(FailureReason.STATUS, status=response.status)
                raw = bytearray()
                async for data in response.content.iter_any():
                    raw += data
                    if len(raw) > most_bytes:
                        raise UpstreamFailure(FailureReason.MALFORMED)
                return bytes(raw)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise UpstreamFailure(FailureReason.REFUSED) from error

    async def lives(self, pod: Pod) -> bool:
        """Return whether `/health` of the pod's engine still answers well."""
        try:
            await self.get(pod, path="/health", most_bytes=65536, timeout_s=_HEALTH_TIMEOUT_S)
        except UpstreamFailure:
            return False
        return True

    async def _post(
        self, pod: Pod, path: str, body: bytes, headers: Mapping[str, str], connect_s: float
    ) -> EngineAnswer:
        address = pod.endpoint.host, pod.endpoint.port
        try:
            answer = await self._connections.post(
                address, path, body=body, headers=headers, connect_s=connect_s
            )
        except Unreachable as error:
            raise UpstreamFailure(FailureReason.REFUSED) from error
        except AnswerCut as error:
            raise UpstreamFailure(FailureReason.DISCONNECTED) from error
        if answer.status == 200:
            return answer
        try:
            async with asyncio.timeout(_ERROR_S):
                raw = await _read(answer, _LARGEST_ERROR_BYTES)
        except (UpstreamFailure, TimeoutError):
            raw = b""
        finally:
            answer.release()
        if is_client_fault(answer.status):
            raise _client_fault(answer.status, raw)
        busy = answer.status in _BUSY
        raise UpstreamFailure(
            FailureReason.BUSY if busy else FailureReason.STATUS, status=answer.status
        )


async def following(answer: EngineAnswer) -> bytes:
    """Return the arrived data of an answer; nothing at its end."""
    try:
        return await answer.some()
    except AnswerCut as error:
        raise UpstreamFailure(FailureReason.DISCONNECTED) from error


async def _whole(answer: EngineAnswer) -> bytes:
    try:
        # Most answers come in one piece.
        if answer.ended:
            return answer.take()
        return await _read(answer, _LARGEST_ANSWER_BYTES)
    finally:
        answer.release()


async def _read(answer: EngineAnswer, most_bytes: int) -> bytes:
    parts, size = [], 0
    while data := await following(answer):
        size += len(data)
        if size > most_bytes:
            raise UpstreamFailure(FailureReason.MALFORMED)
        parts.append(data)
    return b"".join(parts)


def is_client_fault(status: int) -> bool:
    """Return whether the engine blames the request itself."""
    return 400 <= status < 500 and status not in _BUSY and status != _NO_KEY


def fault_in_stream(event: bytes) -> ApiError | None:
    """Return the engine's complaint about the request in an error event, if there is one."""
    try:
        code = json.loads(event)["error"]["code"]
    except SHAPE_ERRORS:
        return None
    if type(code) is not int or not is_client_fault(code):
        return None
    return _client_fault(code, event)


def _client_fault(status: int, raw: bytes) -> ApiError:
    """Return the engine's own complaint about the request, in OpenAI's shape."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        document = None
    error = document.get("error", document) if isinstance(document, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return ApiError(status, f"The engine refused the request with status {status}.")
    kind, param, code = error.get("type"), error.get("param"), error.get("code")
    return ApiError(
        status,
        error["message"],
        kind=kind if isinstance(kind, str) else "invalid_request_error",
        param=param if isinstance(param, str) else None,
        code=code if isinstance(code, str | int) else None,
    )
