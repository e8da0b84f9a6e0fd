"""The operator's process: `tandem-operator`. Exit codes: 0 asked to stop, 1 fault, 3 lease lost."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine

import aiohttp
from kubernetes.aio.config import ConfigException

from tandem_contracts import logs
from tandem_operator.kube.client import ApiServerError, Kube, connect
from tandem_operator.kube.kinds import POOL
from tandem_operator.kube.lease import Lease, LeaseLostError, LeaseTerms
from tandem_operator.kube.named_values import NamespaceValues
from tandem_operator.loop import PoolKey, PoolLoop
from tandem_operator.metrics.collect import Collector
from tandem_operator.metrics.doorbells import Doorbells
from tandem_operator.metrics.exported import Exported
from tandem_operator.metrics.prometheus_access import PrometheusAccess
from tandem_operator.metrics.sessions import pods_session, servers_session
from tandem_operator.options import OperatorOptions, options_from
from tandem_operator.serving import ProbeHealth, Servers
from tandem_operator.watch import PoolWatch
from tandem_operator.workqueue import KeyedQueue

log = logging.getLogger("tandem_operator")

EXIT_LEASE_LOST = 3
HEARTBEAT_LIMIT_S = 60.0
RESYNC_EVERY_S = 300.0
CRD_RETRY_S = 5.0


async def run(options: OperatorOptions) -> int:
    """Run until asked to stop; return the exit code."""
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    health, exported = ProbeHealth(), Exported()
    servers = Servers(
        health,
        health_port=options.health_port,
        metrics_port=options.metrics_port,
        refresh=exported.refresh,
    )
    await servers.start()
    try:
        kube = await connect()
    except (ConfigException, OSError) as error:
        log.critical("no cluster to watch", extra={"why": str(error)})
        await servers.stop()
        return 1
    terms = LeaseTerms(
        namespace=options.lease_namespace, name=options.lease_name, identity=options.identity
    )
    lease = Lease(kube, terms, clock=time.monotonic) if options.leader_elect else None
    try:
        if lease is not None:
            kube.may_write = lambda: lease.held
            if await _until(stop, lease.acquire()):
                return 0
        exported.leader.set(1)
        acting = [act(kube, options, health, exported)]
        if lease is not None:
            acting.append(_keep(lease))
        if not await _until(stop, *acting):
            log.error("the operator ended by itself")
            return 1
        if lease is not None:
            await lease.release()
        return 0
    finally:
        await kube.close()
        await servers.stop()


async def act(
    kube: Kube, options: OperatorOptions, health: ProbeHealth, exported: Exported
) -> None:
    """Watch, queue and make passes; return only by cancellation or a fault."""
    loop = asyncio.get_running_loop()
    await _wait_for_crd(kube, options, health)
    async with (
        pods_session() as pods,
        servers_session(named=True) as open_session,
        servers_session(named=False) as guarded_session,
    ):
        servers = PrometheusAccess(
            options.installation,
            values=NamespaceValues(kube, clock=time.monotonic),
            open_session=open_session,
            guarded_session=guarded_session,
        )
        collector = Collector(pods, servers=servers)

        def rung(key: PoolKey) -> None:
            queue.add(key)

        doorbells: Doorbells[PoolKey] = Doorbells(pods, ring=rung)
        pools = PoolLoop(
            kube,
            collector,
            installation=options.installation,
            exported=exported,
            instance=options.identity,
            now=time.time,
            clock=time.monotonic,
            listen=doorbells.listen,
        )

        def done(result: str, seconds: float) -> None:
            exported.reconciles.labels(result=result).inc()
            exported.reconcile_seconds.observe(seconds)

        queue: KeyedQueue[PoolKey] = KeyedQueue(
            pools.work,
            done=done,
            about=lambda key: {"namespace": key.namespace, "pool": key.name},
        )

        def changed(key: PoolKey, is_child: bool) -> None:
            if is_child:
                pools.children_changed(key)
            queue.add(key)

        watch = PoolWatch(
            namespaces=options.namespaces,
            changed=lambda key, is_child: _call(loop, changed, key, is_child),
            restarted=lambda: _call(loop, exported.watch_restarts.inc),
        )
        exported.depth = lambda: queue.depth
        health.live["queue"] = lambda: _overdue(loop.time() - queue.heartbeat_s)
        health.live["watch"] = lambda: None if watch.alive else "its thread ended"
        queue.heartbeat_s = loop.time()
        watch.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(queue.run())
                tasks.create_task(_resync(kube, options, queue))
        finally:
            del health.live["queue"], health.live["watch"]
            await watch.stop()
            await doorbells.close()


async def _wait_for_crd(kube: Kube, options: OperatorOptions, health: ProbeHealth) -> None:
    """Wait until pools can be listed; without its CRD the operator is not ready.

    One of its namespaces is enough: another may be deleted, together with its rights.
    """
    fault = "not asked yet"
    health.ready["pools"] = lambda: fault
    while True:
        for place in options.places:
            try:
                await kube.list(POOL, namespace=place)
            except (ApiServerError, aiohttp.ClientError, OSError, TimeoutError) as error:
                before, fault = fault, f"cannot be listed ({error}); are the CRDs installed?"
                if fault != before:
                    log.warning("pools %s", fault)
            else:
                del health.ready["pools"]
                return
        await asyncio.sleep(CRD_RETRY_S)


async def _resync(kube: Kube, options: OperatorOptions, queue: KeyedQueue[PoolKey]) -> None:
    """Add every pool from time to time, in case a watch missed one."""
    while True:
        for place in options.places:
            try:
                for pool in await kube.list(POOL, namespace=place):
                    queue.add(PoolKey(pool["metadata"]["namespace"], pool["metadata"]["name"]))
            except (ApiServerError, aiohttp.ClientError, OSError, TimeoutError) as error:
                log.warning("pools not listed", extra={"why": str(error)})
        await asyncio.sleep(RESYNC_EVERY_S)


async def _keep(lease: Lease) -> None:
    try:
        await lease.keep()
    except LeaseLostError as error:
        log.critical("lease lost", extra={"why": str(error)})
        logging.shutdown()
        # At once: no work in progress may end as if this process still led.
        os._exit(EXIT_LEASE_LOST)


def _overdue(age_s: float) -> str | None:
    return f"no heartbeat for {age_s:.0f} s" if age_s > HEARTBEAT_LIMIT_S else None


def _call(loop: asyncio.AbstractEventLoop, action: Callable[..., None], *arguments: object) -> None:
    """Call a function of the loop from another thread; a closing loop needs no more calls."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(action, *arguments)


async def _until(stop: asyncio.Event, *work: Coroutine[None, None, None]) -> bool:
    """Return whether `stop` came before any of `work` ended; a failure of work is raised."""
    waiting = asyncio.create_task(stop.wait())
    tasks = [asyncio.create_task(each) for each in work]
    try:
        done, _ = await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return waiting in done
    finally:
        for task in (waiting, *tasks):
            task.cancel()
        await asyncio.gather(waiting, *tasks, return_exceptions=True)


def configure_logging() -> None:
    """Log one JSON object a line, to standard error."""
    logs.configure(os.environ.get("TANDEM_LOG_LEVEL", "INFO"))
    # kopf logs every event that it passes on; only its warnings matter.
    logging.getLogger("kopf").setLevel(max(logging.WARNING, logging.getLogger().level))
    # It warns of the signals that this module handles.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)


def main() -> None:
    """Run `tandem-operator`."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    options = options_from(None)
    configure_logging()
    sys.exit(asyncio.run(run(options)))


if __name__ == "__main__":
    main()
