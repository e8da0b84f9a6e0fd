"""Puts the router's parts together and runs them until they are told to stop."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
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
from tandem_engine.router.peers.hearing import Hearing
from tandem_engine.router.peers.killers import Killers
from tandem_engine.router.peers.telling import Peers
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.probing.polls import DecodeReads
from tandem_engine.router.probing.probes import Probes
from tandem_engine.router.scheduling.request_queue import RequestQueue
from tandem_engine.router.settings_in_force import SettingsHolder

logger = logging.getLogger(__name__)

ACCEPT_SHARE = 0.5
"""New requests are served for so much of a drain at most: the rest is theirs to finish in."""
LAST_READ_S = 12.0
"""Two ticks of the operator, and some."""
SLIPPED_IN_S = 0.05
"""What a connection taken in the last moment needs to bring its request."""


@dataclass(frozen=True, slots=True)
class RouterOptions:
    """How one router process is started.

    Attributes:
        host: the address to listen on; `None`: all of the pod, of IPv4 and IPv6.
        drain_quiet_s: how long nobody must have come, after the order to stop, before the port
            closes: load balancers take notice when they can.
        drain_timeout_s: after which streams that still run are ended.
        engine_key: what engines ask for, if they do.
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
        clock = asyncio.get_running_loop().time
        self.settings = SettingsHolder()
        self.fleet = EnginePods(clock)
        self.waiting = RequestQueue(fleet=self.fleet, settings=self.settings, clock=clock)
        self.learned = LearnedByRouter()
        self._upstream = Upstream(key=options.engine_key)
        pool_key = options.engine_key or None
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
            hearing=Hearing(killers=self.killers, pool_key=pool_key, clock=clock),
            inside=self.clients.inside,
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
        self.background(
            DecodeReads(fleet=self.fleet, upstream=self._upstream, learned=self.learned).run()
        )
        ports = {"port": self.port, "internal_port": self.internal_port}
        event_loop = type(asyncio.get_running_loop()).__module__
        logger.info("router started", extra={**ports, "event_loop": event_loop})

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` beside the servers; its failure ends the process."""
        task = asyncio.create_task(work)
        self._tasks.append(task)

    async def run_until(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, or until a background task fails, which is raised."""
        waiter = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait([waiter, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        for task in done - {waiter}:
            task.result()

    async def drain(self) -> None:
        """Serve whoever still comes, let running requests finish within the bound, end the rest."""
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
        # Who came since the last look, and how they fared, would be lost with this process.
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(deadline_s, loop.time() + LAST_READ_S)):
                await self._internal.last_read()
        refuse.cancel()
        await self._shut(deadline_s)

    async def _shut(self, deadline_s: float) -> None:
        """Close the port; who slipped in meanwhile is served first."""
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
        for runner in self._runners:
            await runner.cleanup()
        self.clients.stop_reading()
        await self.peers.close()
        await self._upstream.close()
        await self._traces.close()
        if self._record is not None:
            self._record.close()

    def _in_force(self) -> RouterSettings | None:
        return self.settings.current

    def _generation(self) -> int:
        return self.settings.current.generation if self.settings.current else 0
