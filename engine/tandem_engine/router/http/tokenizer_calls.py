"""Requests that name or count tokens: bounded and counted, but neither queued nor judged."""

import asyncio
from concurrent.futures import Executor

from aiohttp import web

from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.accounting.router_metrics import RouterMetrics
from tandem_engine.router.forwarding.client_stream import ClientGone
from tandem_engine.router.forwarding.tokenizers import Tokenizers
from tandem_engine.router.http.bodies import Bodies, body_too_large
from tandem_engine.router.http.intake import check_head, read_body, upstream_headers
from tandem_engine.router.http.request_id import HEADER, id_of
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.openai.tokenizer_body import MOST_BYTES, TokenizerKind, tokenizer_body

_SHED = frozenset((429, 503))


class TokenizerCalls:
    """Answers them."""

    def __init__(
        self, *, tokenizers: Tokenizers, metrics: RouterMetrics, bodies: Bodies, reader: Executor
    ) -> None:
        self._tokenizers = tokenizers
        self._metrics = metrics
        self._bodies = bodies
        self._reader = reader

    async def answer(
        self, request: web.BaseRequest, kind: TokenizerKind, settings: RouterSettings
    ) -> web.Response:
        """Return what an engine's tokenizer says; raises `ApiError` or `ClientGone`."""
        outcome = "failed"
        try:
            response = await self._answered(request, kind, settings)
            outcome = "answered"
            return response
        except ApiError as error:
            outcome = _outcome_of(error)
            raise
        except (ClientGone, asyncio.CancelledError):
            outcome = "gone"
            raise
        finally:
            self._metrics.tokenizer_requests.labels(kind.value, outcome).inc()

    async def _answered(
        self, request: web.BaseRequest, kind: TokenizerKind, settings: RouterSettings
    ) -> web.Response:
        check_head(request, settings)
        with self._bodies.body() as body:
            try:
                raw = await read_body(request, settings, body)
            except ConnectionError as error:
                raise ClientGone from error
            if len(raw) > MOST_BYTES:
                raise body_too_large(MOST_BYTES)
            asked = await asyncio.get_running_loop().run_in_executor(
                self._reader, tokenizer_body, kind, raw, settings
            )
            request_id = id_of(request)
            answer = await self._tokenizers.ask(
                kind,
                asked,
                headers=upstream_headers(request, request_id, trace=None),
                settings=settings,
            )
        return web.Response(
            body=answer, content_type="application/json", headers={HEADER: request_id}
        )


def _outcome_of(error: ApiError) -> str:
    if error.status in _SHED:
        return "shed"
    return "refused" if error.status < 500 else "failed"
