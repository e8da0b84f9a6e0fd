"""The port for the operator, Prometheus and the other routers of the pool."""

import asyncio
import math
from collections.abc import Callable

from aiohttp import web

from tandem_contracts.arrivals import MOST_TENANTS, InSystem, SickReport
from tandem_contracts.names import ARRIVAL_PATH, ARRIVAL_WAIT_S
from tandem_contracts.router_settings import OTHER_TENANTS
from tandem_engine.router.accounting.busy import Busy
from tandem_engine.router.accounting.recent import RecentRequest
from tandem_engine.router.forwarding.flight import Accounts
from tandem_engine.router.http.connections import error_response
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.peers.computed import COMPUTED_PATH
from tandem_engine.router.peers.hearing import Hearing
from tandem_engine.router.peers.spent import SPENT_PATH
from tandem_engine.router.peers.telling import KILLERS_PATH
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.pod import Role
from tandem_engine.router.scheduling.queued import Queued
from tandem_engine.router.scheduling.request_queue import RequestQueue
from tandem_engine.router.settings_in_force import SettingsHolder

STILL_READ_S = 30.0
"""A client that read `/arrivals` within this time will read it again."""


class InternalServer:
    """Answers the operator, Prometheus and other routers."""

    def __init__(
        self,
        *,
        fleet: EnginePods,
        waiting: RequestQueue,
        accounts: Accounts,
        busy: Busy,
        hearing: Hearing,
        inside: Callable[[], list[RecentRequest]],
        settings: SettingsHolder,
    ) -> None:
        self._fleet = fleet
        self._waiting = waiting
        self._accounts = accounts
        self._busy = busy
        self._hears = {
            KILLERS_PATH: hearing.answer,
            COMPUTED_PATH: hearing.take_computed,
            SPENT_PATH: hearing.take_spent,
        }
        self._inside = inside
        self._settings = settings
        self._read = asyncio.Event()
        self._read_s = -math.inf

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer the paths of this port; some of them take messages of other routers."""
        if request.path == "/metrics":
            page = web.Response(
                body=self._accounts.metrics.exposition(request.query.getall("name[]", [])),
                headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
            )
            page.enable_compression()
            return page
        if request.path == "/arrivals":
            self._read_s = asyncio.get_running_loop().time()
            self._read.set()
            return self._arrivals()
        if request.path in self._hears:
            return await self._heard(request)
        if request.path == ARRIVAL_PATH:
            return await self._arrival()
        if request.path == "/requests":
            return self._requests(request)
        served = "/metrics, /arrivals, /arrival, /requests, /killers, /computed, /spent"
        return error_response(ApiError(404, f"Served here: {served}."))

    async def _heard(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._hears[request.path](request)
        except ApiError as error:
            refused = error_response(error)
            # The rest of its body is not read.
            refused.force_close()
            return refused

    def _arrivals(self) -> web.Response:
        ledger = self._accounts.ledger
        now_s, queued = ledger.now_s, self._waiting.queued()
        report = ledger.report(
            now_s=now_s,
            in_system=InSystem(
                queued_requests=queued.requests,
                queued_prompt_tokens=queued.prompt_tokens,
                prefill_requests=self._at(Role.PREFILL),
                decode_requests=self._at(Role.DECODE),
                held_prompt_tokens=queued.held_prompt_tokens,
                overdue_requests=queued.overdue,
                held_overdue_requests=queued.held_overdue,
            ),
            sick=self._sick(now_s),
            classes=ledger.classes(self._queued_by_class(queued)),
            tenants=ledger.tenants(self._tenant_names()),
            cache_worth=self._cache_worth(),
            busy_share=round(self._busy.share(), 3),
        )
        # Rows of seconds are plain.
        text = report.model_dump_json(by_alias=True, warnings=False)
        return web.Response(text=text, content_type="application/json")

    async def _arrival(self) -> web.Response:
        """Answer once a request waits or comes, or after some time without one."""
        if not self._waiting.requests:
            try:
                async with asyncio.timeout(ARRIVAL_WAIT_S):
                    await self._accounts.arrival()
            except TimeoutError:
                return web.Response(status=204)
        return web.Response(status=200)

    def _queued_by_class(self, queued: Queued) -> dict[str, int]:
        """Return the number of waiting requests of each class."""
        settings = self._settings.current
        classes = () if settings is None else settings.classes
        return {each.name: queued.by_class[each.name] for each in classes}

    def _tenant_names(self) -> list[str]:
        """Return the names of the pool's tenants, and that of all others."""
        settings = self._settings.current
        if settings is None or settings.tenants is None:
            return []
        named = settings.tenants.named[: MOST_TENANTS - 1]
        return [*(each.name for each in named), OTHER_TENANTS]

    def _cache_worth(self) -> dict[str, int]:
        """Return the tokens that the cache of each prefill pod saved lately, by the pod's name."""
        worth = self._waiting.caches.worth.by_pod(asyncio.get_running_loop().time())
        return {pod.name: tokens for pod, tokens in worth.items()}

    def _requests(self, request: web.BaseRequest) -> web.Response:
        """Return one page of recent requests."""
        after = request.query.get("after", "0")
        if not (after.isascii() and after.isdigit()):
            return error_response(ApiError(400, "after: the number that `next` was."))
        page = self._accounts.recent.page(int(after[:18]), inside=self._inside)
        return web.json_response(page)

    async def last_read(self) -> None:
        """Return once `/arrivals` was read again; return at once if no client reads it any more."""
        self._read.clear()
        if asyncio.get_running_loop().time() - self._read_s < STILL_READ_S:
            await self._read.wait()

    def _sick(self, now_s: float) -> list[SickReport]:
        """Return the pods that get no work because of their failures, with time and reason."""
        now = asyncio.get_running_loop().time()
        return [
            SickReport(
                pod=sick.pod.name,
                role=sick.pod.endpoint.role.value,
                since_s=round(now_s - (now - sick.since_s), 3),
                reason=sick.why.value,
            )
            for sick in sorted(self._fleet.ejection.sick(), key=lambda sick: sick.pod.name)
        ]

    def _at(self, role: Role) -> int:
        return sum(pod.requests for pod in self._fleet.pods() if pod.endpoint.role is role)
