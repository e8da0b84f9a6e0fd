"""Errors in OpenAI's shape: every refusal to a client is one of these."""

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

    def body(self, *, anthropic: bool = False) -> bytes:
        """Return the JSON document for this error, in the shape of the one API or the other."""
        if anthropic:
            return anthropic_document(self)
        return error_document(self.message, kind=self.kind, param=self.param, code=self.code)


_ANTHROPIC_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    502: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_OWN_KINDS = frozenset(("invalid_request_error", "server_error", "rate_limit_error"))


def anthropic_document(error: ApiError) -> bytes:
    """Return `{"type": "error", ...}` as Anthropic's clients expect it."""
    # An engine's own name for it stays.
    kind = error.kind
    if kind in _OWN_KINDS:
        kind = _ANTHROPIC_KINDS.get(error.status, "invalid_request_error")
    document: dict[str, object] = {
        "type": "error",
        "error": {"type": kind, "message": error.message},
    }
    if error.request_id is not None:
        document["request_id"] = error.request_id
    return json.dumps(document).encode()


def error_document(
    message: str, *, kind: str, param: str | None = None, code: str | int | None = None
) -> bytes:
    """Return `{"error": {...}}` as OpenAI's clients expect it."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return json.dumps({"error": error}).encode()


def error_event(message: str, *, code: str | int) -> bytes:
    """Return the events that end a stream with an error after it had begun."""
    document = error_document(message, kind="upstream_error", code=code)
    return b"data: " + document + b"\n\ndata: [DONE]\n\n"


def named_error_event(error: ApiError, *, anthropic: bool, sent: int) -> bytes:
    """Return the event that ends a stream of named events after the sent ones."""
    if anthropic:
        document = anthropic_document(error)
    else:
        event = {
            "type": "error",
            "code": error.code or "upstream_error",
            "message": error.message,
            "param": error.param,
            "sequence_number": sent,
        }
        document = json.dumps(event).encode()
    return b"event: error\ndata: " + document + b"\n\n"


def unavailable(message: str, *, code: str, retry_after_s: int) -> ApiError:
    """Return a 503 that asks the client to try again."""
    return ApiError(503, message, kind="server_error", code=code, retry_after_s=retry_after_s)


def too_busy(message: str, *, code: str, retry_after_s: int) -> ApiError:
    """Return a 429 that asks the client to try again."""
    return ApiError(429, message, kind="rate_limit_error", code=code, retry_after_s=retry_after_s)


def shutting_down() -> ApiError:
    """Return the refusal of a router that shuts down."""
    return unavailable("This router is shutting down; try again.", code="draining", retry_after_s=1)
