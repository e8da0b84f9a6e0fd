"""The two legs of a request over HTTP: one prefill answer, then one decode stream.

Whatever goes wrong becomes an `UpstreamFailure`, which says whether the engine can have seen the
request, or an `ApiError` where the engine found fault with the request itself.
"""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any

import aiohttp

from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.openai.kv_fields import KV_PARAMS
from tandem_engine.router.openai.prefill_answer import PrefillAnswer, read_prefill_answer
from tandem_engine.router.openai.sse import SHAPE_ERRORS
from tandem_engine.router.pods.pod import Pod

_LARGEST_ANSWER_BYTES = 32 * 1024 * 1024
_LARGEST_ERROR_BYTES = 64 * 1024
_NO_MODEL = "tandem-kv-given-back"
_LET_GO_S = 5.0
_BUSY = frozenset({429, 503})
# It is the router that an engine asks for a key.
_NO_KEY = 401
# Below uvicorn's 5 s: a connection that the engine is about to close is not taken up again.
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
        key: of the pool's engines; `None` where they ask for none.
    """

    def __init__(self, *, key: str | None = None) -> None:
        authorization = {"Authorization": f"Bearer {key}"} if key else {}
        self._session = aiohttp.ClientSession(
            # Engines have none for whoever asks next.
            cookie_jar=aiohttp.DummyCookieJar(),
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=_KEEPALIVE_S, use_dns_cache=True
            ),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=("User-Agent",),
            headers={
                "Accept-Encoding": "identity",
                "Content-Type": "application/json",
                **authorization,
            },
        )

    async def close(self) -> None:
        """Close every connection."""
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
        response = await self._post(pod, kind.path, body, headers, connect_s)
        try:
            raw = await _read(response, _LARGEST_ANSWER_BYTES)
        finally:
            response.close() if not response.content.at_eof() else response.release()
        try:
            return read_prefill_answer(kind, json.loads(raw))
        except SHAPE_ERRORS as error:
            raise UpstreamFailure(FailureReason.MALFORMED) from error

    async def decode(
        self, pod: Pod, *, path: str, body: bytes, headers: Mapping[str, str], connect_s: float
    ) -> aiohttp.ClientResponse:
        """Return the open stream of a decode pod; the caller closes it."""
        response = await self._post(pod, path, body, headers, connect_s)
        if response.content_type != "text/event-stream":
            response.close()
            raise UpstreamFailure(FailureReason.MALFORMED)
        return response

    async def ask(
        self, pod: Pod, *, path: str, body: bytes, headers: Mapping[str, str], connect_s: float
    ) -> bytes:
        """Return the JSON of an answer that is no stream."""
        response = await self._post(pod, path, body, headers, connect_s)
        try:
            return await _read(response, _LARGEST_ANSWER_BYTES)
        finally:
            response.close() if not response.content.at_eof() else response.release()

    async def let_go(self, pod: Pod, kv_params: dict[str, Any], *, connect_s: float) -> None:
        """Have a pod let go of KV blocks; where it does not, their lease ends later.

        vLLM tells its connector of KV parameters in a request that it refuses, as it does one for a
        model that there is not; the connector of our engines knows what to do with these.
        """
        body = {"model": _NO_MODEL, "prompt": [0], "max_tokens": 1, KV_PARAMS: kv_params}
        with suppress(UpstreamFailure, ApiError, TimeoutError):
            async with asyncio.timeout(_LET_GO_S):
                response = await self._post(
                    pod, EndpointKind.COMPLETIONS.path, json.dumps(body).encode(), {}, connect_s
                )
                response.close()

    async def get(self, pod: Pod, *, path: str, most_bytes: int, timeout_s: float) -> bytes:
        """Return a small document of a pod's engine."""
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with self._session.get(pod.url + path, timeout=timeout) as response:
                if response.status != 200:
                    raise UpstreamFailure(FailureReason.STATUS, status=response.status)
                return await _read(response, most_bytes)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise UpstreamFailure(FailureReason.REFUSED) from error

    async def lives(self, pod: Pod) -> bool:
        """Return whether the pod's engine still says that it is well."""
        try:
            await self.get(pod, path="/health", most_bytes=65536, timeout_s=_HEALTH_TIMEOUT_S)
        except UpstreamFailure:
            return False
        return True

    async def _post(
        self, pod: Pod, path: str, body: bytes, headers: Mapping[str, str], connect_s: float
    ) -> aiohttp.ClientResponse:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s)
        try:
            response = await self._session.post(
                pod.url + path, data=body, headers=headers, timeout=timeout, allow_redirects=False
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise UpstreamFailure(FailureReason.REFUSED) from error
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamFailure(FailureReason.DISCONNECTED) from error
        if response.status == 200:
            return response
        try:
            raw = await _read(response, _LARGEST_ERROR_BYTES)
        except UpstreamFailure:
            raw = b""
        finally:
            response.close()
        if is_client_fault(response.status):
            raise _client_fault(response.status, raw)
        busy = response.status in _BUSY
        raise UpstreamFailure(
            FailureReason.BUSY if busy else FailureReason.STATUS, status=response.status
        )


async def _read(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    parts, size = [], 0
    try:
        async for data in response.content.iter_any():
            size += len(data)
            if size > most_bytes:
                raise UpstreamFailure(FailureReason.MALFORMED)
            parts.append(data)
    except (aiohttp.ClientError, OSError) as error:
        raise UpstreamFailure(FailureReason.DISCONNECTED) from error
    return b"".join(parts)


def is_client_fault(status: int) -> bool:
    """Return whether an engine says so that the request itself is at fault, and no engine."""
    return 400 <= status < 500 and status not in _BUSY and status != _NO_KEY


def fault_in_stream(event: bytes) -> ApiError | None:
    """Return an engine's complaint about the request out of an error event, if it is one."""
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
