"""The id by which client, router and engine speak of one request."""

import re
import secrets

from aiohttp import web

HEADER = "X-Request-Id"
_ACCEPTED = re.compile(r"[A-Za-z0-9._:@/+=-]{1,128}")


def id_of(request: web.BaseRequest) -> str:
    """Return the client's own id of its request, where it is one, else a new one."""
    given = request.headers.get(HEADER, "")
    return given if _ACCEPTED.fullmatch(given) else new_id()


def new_id() -> str:
    """Return an id for a request that has none."""
    return secrets.token_hex(16)
