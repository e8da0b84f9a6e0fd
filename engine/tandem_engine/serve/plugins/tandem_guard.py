"""Requires the pool's key from callers of vLLM's port, except on paths that only show health.

vLLM's own `--api-key` guards only some prefixes of paths. In 0.32.0, `/invocations` answers prompts
without a key, and `/tokenize` and `/pause` work without it, too.
"""

import hmac
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

KEY_ENV = "TANDEM_ENGINE_KEY"
OPEN_PATHS = frozenset({"/health", "/metrics", "/version"})
"""Paths that probes, Prometheus and the operator read."""
_BODY = (
    b'{"error": {"message": "This engine takes requests from its pool\'s router only; ask it.", '
)
_BODY += b'"type": "authentication_error", "code": 401}}'


class Guard:
    """An ASGI middleware, made once for each API server process of vLLM."""

    def __init__(self, app: App) -> None:
        key = os.environ.get(KEY_ENV, "")
        if not key:
            raise RuntimeError(f"{KEY_ENV} is needed; take the middleware away to go without")
        self._app = app
        self._expected = f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on allowed requests; answer 401 to others, before their body is read."""
        kind = scope["type"]
        if kind not in ("http", "websocket") or self._passes(scope):
            await self._app(scope, receive, send)
        elif kind == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": _BODY})

    def _passes(self, scope: Scope) -> bool:
        if scope.get("method") in ("GET", "HEAD") and scope["path"] in OPEN_PATHS:
            return True
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        # All of these headers: a reader of another one than the first must not be misled.
        return bool(given) and all(hmac.compare_digest(each, self._expected) for each in given)
