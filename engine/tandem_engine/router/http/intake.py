"""Reads an HTTP request of a client within limits, or refuses it."""

import asyncio
import hashlib
from itertools import chain

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.accounting.traces import RequestTrace
from tandem_engine.router.http.bodies import LEAST_BYTES_PER_S, Body, body_too_large
from tandem_engine.router.http.request_id import HEADER
from tandem_engine.router.openai.errors import ApiError, unavailable

# What a client is let in by (its Authorization, its cookies) is no business of an engine.
_PASSED_HEADERS = ("traceparent", "tracestate")
_BEARER = "bearer "


def check_head(request: web.BaseRequest, settings: RouterSettings) -> None:
    """Raise `ApiError` for a head that announces a too large or compressed body."""
    limits = settings.limits
    if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        # A few megabytes can be packed gigabytes.
        raise ApiError(
            415,
            "Content-Encoding must be identity; send the body without compression.",
            code="unsupported_encoding",
        )
    raw = request.raw_headers
    header_bytes = sum(map(len, chain.from_iterable(raw))) + 4 * len(raw)
    if header_bytes > limits.header_bytes:
        raise ApiError(
            431,
            f"The headers have {header_bytes} bytes, but the limit is {limits.header_bytes}.",
            code="headers_too_large",
        )
    if (request.content_length or 0) > limits.body_bytes:
        raise body_too_large(limits.body_bytes)


async def read_body(request: web.BaseRequest, settings: RouterSettings, body: Body) -> bytes:
    """Return the whole body; raises `ApiError`, or `OSError` if the client leaves."""
    limits, body_s, content = settings.limits, settings.timeouts.body_s, request.content
    if content.is_eof() and content.exception() is None:
        raw = content.read_nowait()
        body.grow(len(raw), limits)
        return raw
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    parts = []
    try:
        async with asyncio.timeout(body_s) as wait:
            with body.sent(wait):
                async for data in content.iter_any():
                    body.grow(len(data), limits)
                    body.waited_for(len(data), body_s)
                    parts.append(data)
    except (web.RequestPayloadError, web.PayloadAccessError, HttpProcessingError):
        raise ApiError(400, "The body is not valid HTTP.", code="invalid_http") from None
    except TimeoutError:
        raise _late(body) from None
    return b"".join(parts)


def _late(body: Body) -> ApiError:
    if body.gave_way:
        return unavailable(
            "This router receives too many bodies, and this one is the slowest; try again later.",
            code="too_many_bodies",
            retry_after_s=1,
        )
    return ApiError(
        408,
        "The body did not arrive in time; send at least"
        f" {LEAST_BYTES_PER_S // 1024} KiB a second without a pause.",
        code="body_timeout",
    )


def credentials_of(request: web.BaseRequest) -> str | None:
    """Return the client's credentials, in the header of OpenAI's or of Anthropic's clients."""
    return request.headers.get("Authorization") or request.headers.get("X-Api-Key")


def digest_of(credentials: str | None) -> str | None:
    """Return how settings name the key that a client was let in by."""
    if credentials is None:
        return None
    key = credentials.strip()
    if key.lower().startswith(_BEARER):
        key = key[len(_BEARER) :].strip()
    return "sha256:" + hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()


def salt_of(request: web.BaseRequest, settings: RouterSettings) -> str | None:
    """Return the salt that separates a tenant's prefixes in caches; `None`: all share one.

    The salt does not reveal the header's value. Requests without the header share one salt.
    """
    header = settings.cache_salt_header
    if header is None:
        return None
    named = "\n".join((settings.pool, *request.headers.getall(header, ())))
    return hashlib.sha256(named.encode(errors="surrogateescape")).hexdigest()


def upstream_headers(
    request: web.BaseRequest, request_id: str, *, trace: RequestTrace | None
) -> dict[str, str]:
    """Return the headers for engines, with those of the router's span if there is one.

    The client's `tracestate` is sent only together with the client's own trace id.
    """
    if trace is not None:
        return trace.headers | {HEADER: request_id}
    headers = {name: request.headers[name] for name in _PASSED_HEADERS if name in request.headers}
    headers[HEADER] = request_id
    return headers
