"""Requests to tokenizers: limited and counted, but neither queued nor judged."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from aiohttp import web

from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.accounting.router_metrics import RouterMetrics
from tandem_engine.router.forwarding.client_stream import Client, ClientAnswer, ClientGone
from tandem_engine.router.forwarding.tokenizers import Tokenizers
from tandem_engine.router.http.bodies import Bodies, body_too_large
from tandem_engine.router.http.connections import SERVER
from tandem_engine.router.http.intake import check_head, read_body, upstream_headers
from tandem_engine.router.http.request_id import HEADER, id_of
from tandem_engine.router.openai.errors import ApiError, shutting_down
from tandem_engine.router.openai.tokenizer_body import MOST_BYTES, TokenizerKind, tokenizer_body

_SHED = frozenset((429, 503))
_TAKEN_WITHIN_S = 30.0
"""Time limit for a client to read its answer."""


class TokenizerCalls:
    """Answers tokenizer requests."""

    def __init__(
        self,
        *,
        tokenizers: Tokenizers,
        metrics: RouterMetrics,
        bodies: Bodies,
        reader: Executor,
        closing: Callable[[], bool],
    ) -> None:
        """`closing` says whether connections close after their answers."""
        self._tokenizers = tokenizers
        self._metrics = metrics
        self._bodies = bodies
        self._reader = reader
        self._closing = closing
        self._running: set[asyncio.Task[object]] = set()
        self._stopped = False

    def stop(self) -> None:
        """End all running requests; a client without an answer yet gets an error."""
        self._stopped = True
        for task in self._running:
            task.cancel()

    async def answer(
        self, request: web.BaseRequest, kind: TokenizerKind, settings: RouterSettings
    ) -> web.StreamResponse:
        """Send the answer of an engine's tokenizer; raises `ApiError` or `ClientGone`."""
        outcome = "failed"
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine served by aiohttp runs in a task
        self._running.add(task)
        try:
            response = await self._unless_stopped(request, kind, settings)
            outcome = "answered"
            return response
        except ApiError as error:
            outcome = _outcome_of(error)
            raise
        except (ClientGone, asyncio.CancelledError):
            outcome = "gone"
            raise
        finally:
            self._running.discard(task)
            self._metrics.tokenizer_requests.labels(kind.value, outcome).inc()

    async def _unless_stopped(
        self, request: web.BaseRequest, kind: TokenizerKind, settings: RouterSettings
    ) -> web.StreamResponse:
        try:
            return await self._answered(request, kind, settings)
        except asyncio.CancelledError:
            if not self._stopped:
                raise
            if request.writer.output_size:
                raise ClientGone from None
            raise shutting_down() from None

    async def _answered(
        self, request: web.BaseRequest, kind: TokenizerKind, settings: RouterSettings
    ) -> web.StreamResponse:
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
            # Only the client's pace empties it, so it counts as the body does.
            body.hold(len(answer), settings.limits)
            return await self._sent(request, answer, request_id, settings)

    async def _sent(
        self, request: web.BaseRequest, answer: bytes, request_id: str, settings: RouterSettings
    ) -> web.StreamResponse:
        client = Client(
            request,
            idle_s=settings.timeouts.idle_s,
            until_s=asyncio.get_running_loop().time() + _TAKEN_WITHIN_S,
            closing=self._closing,
        )
        response = ClientAnswer(
            {"Content-Type": "application/json", "Server": SERVER, HEADER: request_id},
            length=len(answer),
        )
        await client.end(response, answer)
        return response


def _outcome_of(error: ApiError) -> str:
    if error.status in _SHED:
        return "shed"
    return "refused" if error.status < 500 else "failed"
