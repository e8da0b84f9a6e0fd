"""The id of a request for client, router and engine."""

import os
import re

from aiohttp import web

HEADER = "X-Request-Id"
_ACCEPTED = re.compile(r"[A-Za-z0-9._:@/+=-]{1,128}")


def id_of(request: web.BaseRequest) -> str:
    """Return the client's own id of its request if it is valid, else a new one."""
    given = request.headers.get(HEADER, "")
    return given if _ACCEPTED.fullmatch(given) else new_id()


def new_id() -> str:
    """Return an id for a request that has none."""
    return os.urandom(16).hex()
