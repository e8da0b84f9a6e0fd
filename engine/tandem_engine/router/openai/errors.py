"""Errors in OpenAI's shape: every refusal a client sees is one of these."""

import json
from dataclasses import dataclass


@dataclass(slots=True)
class ApiError(Exception):
    """An answer other than success, before any byte of the stream was sent."""

    status: int
    message: str
    kind: str = "invalid_request_error"
    param: str | None = None
    code: str | int | None = None
    retry_after_s: int | None = None
    allow: str | None = None
    request_id: str | None = None

    def __str__(self) -> str:
        return f"{self.status} {self.code or self.kind}"

    def body(self) -> bytes:
        """Return the JSON document for this error."""
        return error_document(self.message, kind=self.kind, param=self.param, code=self.code)


def error_document(
    message: str, *, kind: str, param: str | None = None, code: str | int | None = None
) -> bytes:
    """Return `{"error": {...}}` as OpenAI's clients expect it."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return json.dumps({"error": error}).encode()


def error_event(message: str, *, code: str | int) -> bytes:
    """Return the events that end a stream which had begun when it failed."""
    document = error_document(message, kind="upstream_error", code=code)
    return b"data: " + document + b"\n\ndata: [DONE]\n\n"


def unavailable(message: str, *, code: str, retry_after_s: int) -> ApiError:
    """Return a 503 that asks the client to come back."""
    return ApiError(503, message, kind="server_error", code=code, retry_after_s=retry_after_s)


def too_busy(message: str, *, code: str, retry_after_s: int) -> ApiError:
    """Return a 429 that asks the client to come back."""
    return ApiError(429, message, kind="rate_limit_error", code=code, retry_after_s=retry_after_s)
