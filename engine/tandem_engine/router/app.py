"""Builds the router from its parts and runs it until a stop is requested."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from tandem_contracts.names import HTTP_PORT, ROUTER_INTERNAL_PORT
from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.accounting.busy import Busy
from tandem_engine.router.accounting.ledger import Ledger
from tandem_engine.router.accounting.recent import Recent
from tandem_engine.router.accounting.router_metrics import RouterMetrics
from tandem_engine.router.accounting.timing_record import TimingRecord
from tandem_engine.router.accounting.traces import Traces
from tandem_engine.router.forwarding.flight import Accounts, LearnedByRouter
from tandem_engine.router.forwarding.forward import Forwarder
from tandem_engine.router.forwarding.tokenizers import Tokenizers
from tandem_engine.router.forwarding.upstream import Upstream
from tandem_engine.router.http.client_port import ClientServer
from tandem_engine.router.http.connections import listen
from tandem_engine.router.http.internal_port import InternalServer
from tandem_engine.router.openai.prefixes import PrefixMarks
from tandem_engine.router.peers.computed import COMPUTED_PATH, Computed, News
from tandem_engine.router.peers.hearing import Hearing
from tandem_engine.router.peers.killers import Killers
from tandem_engine.router.peers.spent import SPENT_PATH, Spent
from tandem_engine.router.peers.telling import Peers, tell_often
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.pod import Role
from tandem_engine.router.probing.polls import DecodeReads
from tandem_engine.router.probing.probes import Probes
from tandem_engine.router.scheduling.caches import PrefillCaches
from tandem_engine.router.scheduling.request_queue import RequestQueue
from tandem_engine.router.settings_in_force import SettingsHolder
from tandem_routing.prefix_index import Prefix

logger = logging.getLogger(__name__)

ACCEPT_SHARE = 0.5
"""The largest share of a drain in which new requests are served: they finish in the rest."""
LAST_READ_S = 12.0
"""A little more than two ticks of the operator."""
SLIPPED_IN_S = 0.05
"""Time for a connection that was accepted last to send its request."""


@dataclass(frozen=True, slots=True)
class RouterOptions:
    """The start options of one router process.

    Attributes:
        host: the address to listen on; `None`: all of the pod, of IPv4 and IPv6.
        drain_quiet_s: time without a new request, after the stop signal, before the port closes:
            load balancers learn of the drain late.
        drain_timeout_s: time after which running streams are ended.
        engine_key: the key of the engines, if they need one.
    """

    name: str = "router"
    host: str | None = None
    port: int = HTTP_PORT
    internal_port: int = ROUTER_INTERNAL_PORT
    drain_quiet_s: float = 5.0
    drain_timeout_s: float = 280.0
    engine_key: str | None = field(default=None, repr=False)
    timing_record: Path | None = None
    timing_record_bytes: int = 256 * 1024 * 1024


class Router:
    """One router process."""

    def __init__(self, options: RouterOptions) -> None:
        self._options = options
        # Its epoch is the loop's, whose own time has whole milliseconds and stands still in a turn.
        clock = time.monotonic
        self.settings = SettingsHolder()
        self.fleet = EnginePods(clock)
        pool_key = options.engine_key or None
        self._news = News()
        caches = PrefillCaches(tell=self._note if pool_key else None)
        self.waiting = RequestQueue(
            fleet=self.fleet, settings=self.settings, clock=clock, caches=caches
        )
        self.learned = LearnedByRouter()
        self._upstream = Upstream(key=options.engine_key)
        self.killers = Killers(clock, pool_key=pool_key)
        self.peers = Peers(
            killers=self.killers, pool_key=pool_key, own_name=options.name, clock=clock
        )
        self._record = (
            TimingRecord(options.timing_record, max_bytes=options.timing_record_bytes)
            if options.timing_record is not None
            else None
        )
        self.accounts = Accounts(
            ledger=Ledger(router=options.name, wall=time.time, clock=clock),
            recent=Recent(router=options.name, wall=time.time),
            metrics=RouterMetrics(),
            learned=self.learned,
            settings=self.settings,
            clock=clock,
            record=self._record,
        )
        self._traces = Traces(router=options.name, count=self.accounts.metrics.spans)
        busy = Busy(clock=clock, cpu=time.process_time)
        self.accounts.metrics.watch(
            fleet=self.fleet,
            queued=lambda: self.waiting.requests,
            held=lambda: self.waiting.requests if self.waiting.held else 0,
            generation=self._generation,
            marks=lambda: self.waiting.caches.marks,
            busy_share=busy.share,
        )
        self.clients = ClientServer(
            fleet=self.fleet,
            forwarder=Forwarder(
                fleet=self.fleet,
                waiting=self.waiting,
                upstream=self._upstream,
                accounts=self.accounts,
                killers=self.killers,
                peers=self.peers,
                clock=clock,
            ),
            tokenizers=Tokenizers(fleet=self.fleet, upstream=self._upstream),
            accounts=self.accounts,
            settings=self.settings,
            prefixes=PrefixMarks(options.engine_key),
            traces=self._traces,
            clock=clock,
        )
        self._internal = InternalServer(
            fleet=self.fleet,
            waiting=self.waiting,
            accounts=self.accounts,
            busy=busy,
            hearing=Hearing(
                killers=self.killers,
                computed=self._hear,
                spent=self._hear_spent,
                pool_key=pool_key,
                clock=clock,
            ),
            inside=self.clients.inside,
            settings=self.settings,
        )
        self._runners: list[web.ServerRunner] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.port = self.internal_port = 0

    async def start(self) -> None:
        """Open both ports and start the background reads."""
        options = self._options
        clients, self.port = await listen(
            self.clients.handle, host=options.host, port=options.port, settings=self._in_force
        )
        internal, self.internal_port = await listen(
            self._internal.handle,
            host=options.host,
            port=options.internal_port,
            settings=self._in_force,
        )
        self._runners = [clients, internal]
        probes = Probes(fleet=self.fleet, upstream=self._upstream, settings=self.settings)
        self.background(probes.run())
        self.background(probes.look())
        for path, news in (
            (COMPUTED_PATH, self._news.take),
            (SPENT_PATH, self.clients.tenants.spending.take),
        ):
            self.background(tell_often(news, partial(self.peers.tell_once, path), asyncio.sleep))
        self.background(
            DecodeReads(fleet=self.fleet, upstream=self._upstream, learned=self.learned).run()
        )
        ports = {"port": self.port, "internal_port": self.internal_port}
        event_loop = type(asyncio.get_running_loop()).__module__
        logger.info("router started", extra={**ports, "event_loop": event_loop})

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` beside the servers; if it fails, the process ends."""
        task = asyncio.create_task(work)
        self._tasks.append(task)

    async def run_until(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, or raise the error of a background task that fails."""
        waiter = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait([waiter, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        for task in done - {waiter}:
            task.result()

    async def drain(self) -> None:
        """Serve late requests, let running ones finish within the time limit, and end the rest."""
        loop, options = asyncio.get_running_loop(), self._options
        began_s = loop.time()
        deadline_s = began_s + options.drain_timeout_s
        refuse_at_s = began_s + ACCEPT_SHARE * options.drain_timeout_s
        clients = self.clients
        clients.draining = True
        logger.info("draining", extra={"requests": clients.requests})
        await clients.visits.cease(options.drain_quiet_s, until_s=refuse_at_s)
        self.fleet.close()
        refuse = loop.call_at(refuse_at_s, clients.close)
        try:
            async with asyncio.timeout_at(deadline_s):
                await clients.silent(options.drain_quiet_s)
        except TimeoutError:
            logger.warning("drain bound reached", extra={"requests": clients.requests})
            clients.close()
            clients.stop_requests()
            await clients.drained()
        # Arrivals and results since the last read would be lost with this process.
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(deadline_s, loop.time() + LAST_READ_S)):
                await self._internal.last_read()
        refuse.cancel()
        await self._shut(deadline_s)

    async def _shut(self, deadline_s: float) -> None:
        """Close the port, and serve requests that came meanwhile."""
        for site in tuple(self._runners[0].sites):
            await site.stop()
        await asyncio.sleep(SLIPPED_IN_S)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline_s):
                await self.clients.drained()

    async def close(self) -> None:
        """Stop everything now."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.accounts.ring()
        for runner in self._runners:
            await runner.cleanup()
        self.clients.stop_reading()
        await self.peers.close()
        await self._upstream.close()
        await self._traces.close()
        if self._record is not None:
            self._record.close()

    def _note(self, pod: str, prefix: Prefix) -> None:
        """Send the other routers a prompt that a prefill pod computed, if there are any."""
        if self.peers.names:
            self._news.add(pod, prefix)

    def _hear(self, prompts: list[Computed]) -> None:
        """Record prompts that prefill pods computed for other routers."""
        for each in prompts:
            pod = self.fleet.find(each.pod)
            if pod is not None and pod.endpoint.role is Role.PREFILL:
                self.waiting.caches.heard(pod, each.prefix)

    def _hear_spent(self, spent: list[Spent]) -> None:
        """Count what tenants asked for at other routers."""
        settings = self.settings.current
        self.clients.tenants.hear(spent, None if settings is None else settings.tenants)

    def _in_force(self) -> RouterSettings | None:
        return self.settings.current

    def _generation(self) -> int:
        return self.settings.current.generation if self.settings.current else 0
