"""What is taken of a client's HTTP request before it is a call: within bounds, or refused."""

import asyncio
import re
import uuid

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from tandem_engine.router.errors import ApiError
from tandem_engine.router.settings import Settings

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:@/+=-]{1,128}")
_PASSED_HEADERS = ("Authorization", "traceparent", "tracestate")


def check_sizes(request: web.BaseRequest, settings: Settings) -> None:
    """Raise `ApiError` for what says itself that it is too large: nobody need read it to know."""
    limits = settings.limits
    header_bytes = sum(len(name) + len(value) + 4 for name, value in request.raw_headers)
    if header_bytes > limits.header_bytes:
        raise ApiError(
            431,
            f"The headers have {header_bytes} bytes; at most {limits.header_bytes} are accepted.",
            code="headers_too_large",
        )
    if (request.content_length or 0) > limits.body_bytes:
        raise _body_too_large(limits.body_bytes)


async def read_body(request: web.BaseRequest, settings: Settings) -> bytes:
    """Return the whole body; raises `ApiError`, or `OSError` where the client leaves."""
    most = settings.limits.body_bytes
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    parts, size = [], 0
    try:
        async with asyncio.timeout(settings.timeouts.idle_s):
            async for data in request.content.iter_any():
                size += len(data)
                if size > most:
                    raise _body_too_large(most)
                parts.append(data)
    except (web.RequestPayloadError, web.PayloadAccessError, HttpProcessingError):
        raise ApiError(400, "The body is not valid HTTP.", code="invalid_http") from None
    except TimeoutError:
        raise ApiError(408, "The body did not arrive in time.", code="body_timeout") from None
    return b"".join(parts)


def id_of(request: web.BaseRequest) -> str:
    """Return the client's own id of its request, where it is one, else a new one."""
    given = request.headers.get("X-Request-Id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def upstream_headers(request: web.BaseRequest, request_id: str) -> dict[str, str]:
    """Return the headers that an engine gets to see."""
    headers = {name: request.headers[name] for name in _PASSED_HEADERS if name in request.headers}
    headers["X-Request-Id"] = request_id
    return headers


def _body_too_large(most: int) -> ApiError:
    return ApiError(
        413, f"The body is larger than the {most} bytes accepted.", code="body_too_large"
    )
