"""The paths of the client port, and the errors for all others."""

from http import HTTPStatus

from aiohttp import web

from tandem_engine.router.http.request_id import HEADER, id_of
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.openai.tokenizer_body import TokenizerKind

GENERATE = {kind.path: kind for kind in EndpointKind}
TOKENIZE = {kind.path: kind for kind in TokenizerKind}
MODELS = "/v1/models"
PROBES = frozenset({"/health", "/ready", "/accepting"})

_KNOWN = frozenset((*GENERATE, *TOKENIZE, *PROBES, MODELS))
_ANSWERS = EndpointKind.RESPONSES.path + "/"
_EMBEDDINGS = "/v1/embeddings"


def identified(response: web.StreamResponse, request: web.BaseRequest) -> web.StreamResponse:
    """Return an answer with the id of its request."""
    if not response.prepared and HEADER not in response.headers:
        response.headers[HEADER] = id_of(request)
    return response


def speaks_anthropic(path: str) -> bool:
    """Return whether clients of this path expect errors in Anthropic's shape."""
    return path.startswith(EndpointKind.MESSAGES.path)


def only(request: web.BaseRequest, method: str) -> None:
    """Raise `ApiError` for every other method."""
    if request.method != method:
        raise ApiError(405, f"{request.method} is not allowed here; use {method}.", allow=method)


def elsewhere(request: web.BaseRequest) -> web.Response:
    """Redirect a client to the path without its slash, or raise `ApiError` if there is none.

    The method and the body stay. The `Location` has no host, because a proxy before the router may
    use TLS.
    """
    path = request.path
    known = path.rstrip("/")
    if known != path and known in _KNOWN:
        query = request.rel_url.raw_query_string
        return web.Response(
            status=HTTPStatus.TEMPORARY_REDIRECT,
            headers={"Location": f"{known}?{query}" if query else known},
        )
    if path.startswith(_ANSWERS):
        raise ApiError(
            404,
            "The router keeps no answer; send the earlier items again in input.",
            code="response_not_found",
        )
    if path == _EMBEDDINGS:
        raise ApiError(
            404,
            "This pool generates text; ask a server of an embedding model for embeddings.",
            code="unknown_path",
        )
    served = ", ".join(sorted(_KNOWN))
    raise ApiError(404, f"Unknown path; served here: {served}.", code="unknown_path")
