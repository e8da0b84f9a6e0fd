"""The port for clients: all steps of a request from its head to its end."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

from aiohttp import web

from tandem_contracts.router_settings import ClassSettings, RouterSettings
from tandem_engine.router.accounting.recent import RecentRequest
from tandem_engine.router.accounting.traces import Traces
from tandem_engine.router.accounting.visits import Visits
from tandem_engine.router.forwarding.client_stream import Client, ClientGone
from tandem_engine.router.forwarding.flight import Accounts, Flight
from tandem_engine.router.forwarding.forward import Forwarder
from tandem_engine.router.forwarding.sink import Sink, sink_of
from tandem_engine.router.forwarding.tokenizers import Tokenizers
from tandem_engine.router.http.bodies import Bodies, Body
from tandem_engine.router.http.classes import class_of_call, class_of_head
from tandem_engine.router.http.connections import SERVER, error_response
from tandem_engine.router.http.intake import (
    check_head,
    credentials_of,
    read_body,
    salt_of,
    upstream_headers,
)
from tandem_engine.router.http.model_list import model_list
from tandem_engine.router.http.paths import (
    GENERATE,
    MODELS,
    PROBES,
    TOKENIZE,
    elsewhere,
    identified,
    only,
    speaks_anthropic,
)
from tandem_engine.router.http.request_id import HEADER, id_of
from tandem_engine.router.http.tenant_desk import TenantDesk, client_of
from tandem_engine.router.http.tokenizer_calls import TokenizerCalls
from tandem_engine.router.openai.call import Call, parse_call
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.errors import ApiError, shutting_down, too_busy, unavailable
from tandem_engine.router.openai.prefixes import PrefixMarks
from tandem_engine.router.openai.prompts import Prompt
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.settings_in_force import SettingsHolder
from tandem_routing.tenant_shares import NO_TENANT
from tandem_routing.verdict import Outcome, Timeline

# A body of this size takes a good millisecond to read, which every stream would stand still for.
_LARGE_BYTES = 64 * 1024
# As OpenTelemetry names them.
_OPERATIONS = dict.fromkeys(EndpointKind, "chat") | {EndpointKind.COMPLETIONS: "text_completion"}

logger = logging.getLogger(__name__)


class ClientServer:
    """Answers clients."""

    def __init__(
        self,
        *,
        fleet: EnginePods,
        forwarder: Forwarder,
        tokenizers: Tokenizers,
        accounts: Accounts,
        settings: SettingsHolder,
        prefixes: PrefixMarks,
        traces: Traces,
        clock: Callable[[], float],
    ) -> None:
        self._fleet = fleet
        self._forwarder = forwarder
        self._accounts = accounts
        self._settings = settings
        self._prefixes = prefixes
        self._traces = traces
        self._clock = clock
        self._requests = self._whole = 0
        self.bodies = Bodies(settings=settings, clock=clock)
        # One body at a time: what is read of it takes many times the room of its text.
        self.reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bodies")
        self.tenants = TenantDesk(ledger=accounts.ledger, metrics=accounts.metrics, clock=clock)
        self._tokenizer_calls = TokenizerCalls(
            tokenizers=tokenizers,
            metrics=accounts.metrics,
            bodies=self.bodies,
            reader=self.reader,
            closing=lambda: self.draining,
        )
        self._flights: set[Flight] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self.draining = False
        self.closed = False
        self.visits = Visits(clock)
        self._started_s = int(time.time())

    @property
    def requests(self) -> int:
        """Return the number of generating requests here, in every phase."""
        return self._requests

    def inside(self) -> list[RecentRequest]:
        """Return the requests that are served now, with their progress."""
        return [flight.seen() for flight in self._flights]

    def not_ready(self) -> str | None:
        """Return why load balancers should send new requests elsewhere; `None`: no reason.

        A missing decode pod is no reason. Here a request waits or gets an HTTP error, but a Service
        without Ready routers resets its connection.
        """
        return "draining" if self.draining else self.not_accepting()

    def not_accepting(self) -> str | None:
        """Return why this router serves no new request; `None` if it does, also during a drain."""
        if self.closed:
            return "draining"
        if self._settings.current is None:
            return "no settings yet"
        if not self._fleet.listed:
            return "no listing of the pods yet"
        return None

    def close(self) -> None:
        """Answer every new request with 503 from now on."""
        self.closed = True

    async def drained(self) -> None:
        """Wait until no request is left."""
        await self._idle.wait()

    async def silent(self, quiet_s: float) -> None:
        """Wait until no request is left, and none came or was answered for `quiet_s`.

        A client that just got an answer can send more on the same connection, without knowing of a
        drain.
        """
        while True:
            await self.drained()
            left_s = self.visits.still_s(quiet_s)
            if left_s <= 0:
                return
            await asyncio.sleep(left_s)

    def stop_reading(self) -> None:
        """Stop reading bodies."""
        self.reader.shutdown(wait=False, cancel_futures=True)

    def stop_requests(self) -> None:
        """End all running requests with an error to their clients."""
        for flight in self._flights:
            flight.stopping = True
            flight.task.cancel()
        self._tokenizer_calls.stop()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer any request; only a cancellation can be raised, never another error."""
        if request.path in PROBES:
            # A kubelet's visits are no client's.
            return identified(self._probed(request.path), request)
        self.visits.come()
        try:
            return identified(await self._answered(request), request)
        finally:
            self.visits.leave()

    def _probed(self, path: str) -> web.Response:
        if path == "/health":
            return web.json_response({"status": "ok"})
        reason = self.not_ready() if path == "/ready" else self.not_accepting()
        status = HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE
        return web.json_response({"ready": reason is None, "reason": reason}, status=status)

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            response = await self._route(request)
        except ApiError as error:
            response = _refusal(error, request)
        except ClientGone:
            response = web.Response()
        except Exception as error:
            response = _refusal(_router_failed(error), request)
        if request.writer.output_size and not response.prepared:
            # A second status line would be read as part of the answer that has begun.
            if request.transport is not None:
                request.transport.close()
            return response
        if self.draining and not response.prepared:
            response.force_close()
        return response

    async def _route(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        kind = GENERATE.get(path)
        if kind is not None:
            only(request, "POST")
            return await self._generate(request, kind)
        asked = TOKENIZE.get(path)
        if asked is not None:
            only(request, "POST")
            settings = self._settings_in_force()
            if self.closed:
                raise shutting_down()
            self._enter()
            try:
                return await self._tokenizer_calls.answer(request, asked, settings)
            finally:
                self._leave()
        name = path.removeprefix(MODELS + "/")
        if path == MODELS or (name and name != path):
            only(request, "GET")
            return model_list(
                self._settings_in_force(),
                "" if path == MODELS else name,
                created_s=self._started_s,
            )
        return elsewhere(request)

    def _settings_in_force(self) -> RouterSettings:
        settings = self._settings.current
        if settings is None:
            raise unavailable(
                "The router has no settings yet; try again later.",
                code="no_settings",
                retry_after_s=5,
            )
        return settings

    async def _generate(self, request: web.BaseRequest, kind: EndpointKind) -> web.StreamResponse:
        settings = self._settings_in_force()
        if self.closed:
            raise shutting_down()
        try:
            check_head(request, settings)
        except ApiError:
            self._accounts.metrics.requests.labels(Outcome.REFUSED.value).inc()
            raise
        self._enter()
        try:
            with self.bodies.body() as body:
                return await self._accepted(request, kind, settings, body)
        finally:
            self._leave()

    def _enter(self) -> None:
        """Count a request that a drain waits for, until it leaves."""
        self._requests += 1
        self._idle.clear()

    def _leave(self) -> None:
        self._requests -= 1
        if not self._requests:
            self._idle.set()

    async def _accepted(
        self, request: web.BaseRequest, kind: EndpointKind, settings: RouterSettings, body: Body
    ) -> web.StreamResponse:
        """Read a body and serve its request."""
        try:
            raw = await read_body(request, settings, body)
        except ApiError:
            self._accounts.metrics.requests.labels(Outcome.REFUSED.value).inc()
            raise
        except ConnectionError as error:
            raise ClientGone from error
        if self._whole >= settings.limits.concurrent_requests:
            self._shed(request, kind, len(raw), settings)
            raise too_busy(
                "This router has reached its limit of requests; try again later.",
                code="too_many_requests",
                retry_after_s=1,
            )
        self._whole += 1
        received_s, received_wall_s = self._clock(), time.time()
        try:
            call, slo_class = await self._call(request, kind, raw, settings)
            del raw
            return await self._flown(
                *(request, call, slo_class, settings),
                received_s=received_s,
                received_wall_s=received_wall_s,
            )
        finally:
            self._whole -= 1

    def _shed(
        self,
        request: web.BaseRequest,
        kind: EndpointKind,
        body_bytes: int,
        settings: RouterSettings,
    ) -> None:
        """Count a request that was shed before its body was read."""
        tokens = self._estimate(kind, Prompt(size=body_bytes), settings)
        slo_class = class_of_head(request, settings)
        tenant = client_of(request.headers, settings, credentials=credentials_of(request))
        self._accounts.arrive(tokens, slo_class)
        self._accounts.finish_unread(
            tokens,
            arrived_wall_s=time.time(),
            settings=settings,
            slo_class=slo_class,
            tenant_name=None if tenant is None else tenant.label,
        )

    async def _call(
        self, request: web.BaseRequest, kind: EndpointKind, raw: bytes, settings: RouterSettings
    ) -> tuple[Call, ClassSettings | None]:
        salt, prefixes = salt_of(request, settings), self._prefixes
        try:
            if len(raw) < _LARGE_BYTES:
                call = parse_call(kind, raw, settings, salt=salt, prefixes=prefixes)
            else:
                call = await asyncio.get_running_loop().run_in_executor(
                    self.reader,
                    lambda: parse_call(kind, raw, settings, salt=salt, prefixes=prefixes),
                )
            return call, class_of_call(request, call, settings)
        except ApiError:
            self._accounts.metrics.requests.labels(Outcome.REFUSED.value).inc()
            raise

    def _estimate(self, kind: EndpointKind, prompt: Prompt, settings: RouterSettings) -> int:
        """Return the tokens of a prompt as far as known, at most what the model takes."""
        if prompt.exact_tokens is not None:
            return prompt.exact_tokens
        tokens = self._accounts.learned.sizes[kind].estimate(prompt)
        longest = settings.max_model_len
        return tokens if longest is None else min(tokens, longest * prompt.prompts)

    async def _flown(
        self,
        request: web.BaseRequest,
        call: Call,
        slo_class: ClassSettings | None,
        settings: RouterSettings,
        *,
        received_s: float,
        received_wall_s: float,
    ) -> web.StreamResponse:
        """Serve a call from arrival to end, and record the result."""
        kind = call.kind
        request_id = id_of(request)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine served by aiohttp runs in a task
        tokens = self._estimate(kind, call.prompt, settings)
        tenant = client_of(request.headers, settings, credentials=credentials_of(request))
        counted = 0
        if tenant is not None:
            counted = tokens + self._accounts.learned.expected_answers(call, settings)
            try:
                self.tenants.admit(tenant, tokens=counted)
            except ApiError as error:
                error.request_id = request_id
                self._accounts.metrics.requests.labels(Outcome.REFUSED.value).inc()
                raise
        trace = self._traces.begin(
            settings, request.headers, operation=_OPERATIONS[kind], began_s=received_wall_s
        )
        headers = upstream_headers(request, request_id, trace=trace)
        flight = Flight(
            call=call,
            request_id=request_id,
            headers=headers,
            credentials=credentials_of(request),
            settings=settings,
            timeline=Timeline(received_s=received_s),
            received_wall_s=received_wall_s,
            prompt_tokens=tokens,
            exact=call.prompt.exact_tokens is not None,
            task=task,
            arrival_second=self._accounts.arrive(tokens, slo_class),
            slo_class=slo_class,
            tenant=NO_TENANT if tenant is None else tenant.tenant,
            tenant_name=None if tenant is None else tenant.label,
            trace=trace,
        )
        client = Client(
            request,
            idle_s=settings.timeouts.idle_s,
            until_s=flight.deadline_s,
            closing=lambda: self.draining,
        )
        answered = {HEADER: request_id, "Server": SERVER}
        sink = sink_of(call, client, answered)
        self._flights.add(flight)
        try:
            return await self._served(flight, sink)
        except ClientGone:
            flight.left()
            raise
        except ApiError as error:
            error.request_id = request_id
            raise
        finally:
            self._flights.discard(flight)
            self._accounts.finish(flight)
            if tenant is not None:
                self.tenants.ended(tenant, flight, counted=counted)

    async def _served(self, flight: Flight, sink: Sink) -> web.StreamResponse:
        """Serve it; an answer that has begun always gets an end."""
        try:
            return await self._forwarder.serve(flight, sink)
        except (ApiError, ClientGone):
            raise
        except asyncio.CancelledError:
            if not flight.stopping:
                flight.left()
                raise
            failed = shutting_down()
        except Exception as error:
            failed = _router_failed(error)
        try:
            if sink.begun:
                return await sink.fail(failed)
            raise failed
        finally:
            # An error and a frame of its traceback would keep each other.
            del failed


def _refusal(error: ApiError, request: web.BaseRequest) -> web.Response:
    if error.request_id is None:
        error.request_id = id_of(request)
    return error_response(error, anthropic=speaks_anthropic(request.path))


def _router_failed(error: Exception) -> ApiError:
    # The message of an unexpected error may quote the request: only its type is logged.
    logger.error("request failed inside the router", extra={"why": type(error).__name__})
    return ApiError(
        500, "The router failed to serve the request.", kind="server_error", code="router_error"
    )
