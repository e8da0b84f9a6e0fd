"""The operator's process: `tandem-operator`. Exit codes: 0 asked to stop, 1 fault, 3 lease lost."""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass

import aiohttp
from kubernetes.aio.config import ConfigException

from tandem_contracts import logs
from tandem_operator.kube.client import ApiServerError, Kube, connect
from tandem_operator.kube.kinds import POOL
from tandem_operator.kube.lease import Lease, LeaseLostError, LeaseTerms
from tandem_operator.kube.lease_name import lease_name
from tandem_operator.kube.named_values import NamespaceValues
from tandem_operator.loop import PoolKey, PoolLoop
from tandem_operator.metrics.collect import Collector
from tandem_operator.metrics.exported import Exported
from tandem_operator.metrics.installed_prometheus import installed_prometheus
from tandem_operator.metrics.prometheus_access import PrometheusAccess
from tandem_operator.metrics.sessions import pods_session, servers_session
from tandem_operator.serving import ProbeHealth, Servers
from tandem_operator.watch import PoolWatch
from tandem_operator.workloads.world import Installation, Network, Object
from tandem_operator.workqueue import KeyedQueue

log = logging.getLogger("tandem_operator")

EXIT_LEASE_LOST = 3
HEARTBEAT_LIMIT_S = 60.0
RESYNC_EVERY_S = 300.0
CRD_RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """What the process was started with."""

    namespaces: tuple[str, ...]
    metrics_port: int
    health_port: int
    leader_elect: bool
    lease_namespace: str
    identity: str
    installation: Installation

    @property
    def lease_name(self) -> str:
        """One for each set of pools: operators of other pools need not wait for each other."""
        return lease_name(self.namespaces)

    @property
    def places(self) -> tuple[str | None, ...]:
        """Where pools are listed; `None`: everywhere at once."""
        return self.namespaces or (None,)


def options_from(arguments: Sequence[str] | None) -> OperatorOptions:
    """Options from the command line, and images from the environment."""
    parser = argparse.ArgumentParser(
        prog="tandem-operator",
        description=__doc__,
        # The chart refuses options that it sets by their whole names.
        allow_abbrev=False,
    )
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        help="serve only the pools of this namespace; repeat it for each further one",
    )
    parser.add_argument("--metrics-port", type=int, default=8080)
    parser.add_argument("--health-port", type=int, default=8081)
    parser.add_argument(
        "--leader-elect",
        action="store_true",
        help="act only while holding a Lease; needed for more than one replica",
    )
    parser.add_argument("--lease-namespace", default="tandem-system")
    parser.add_argument(
        "--allow-any-pod-template",
        action="store_true",
        help="let pools ask for host access, other service accounts and Secrets",
    )
    parser.add_argument(
        "--allow-any-extra-args",
        action="store_true",
        help="let pools set options of vLLM that load code, read files, open ports or send data",
    )
    parser.add_argument(
        "--no-network-policies",
        action="store_true",
        help="write no NetworkPolicies for pools",
    )
    parser.add_argument(
        "--metrics-from",
        type=_objects,
        default=(),
        metavar="JSON",
        help="peers of a NetworkPolicy that may read metrics of engines and routers, as a list",
    )
    parser.add_argument(
        "--engine-egress",
        type=_objects,
        default=(),
        metavar="JSON",
        help="further egress rules of a NetworkPolicy for engine pods, as a list",
    )
    parser.add_argument(
        "--prometheus-url",
        action="append",
        default=[],
        metavar="URL",
        help="a Prometheus server that pools may name; repeat it for each further one; without it,"
        " any but this pod, its node, the cloud's metadata and the API server",
    )
    parser.add_argument(
        "--prometheus",
        type=installed_prometheus,
        metavar="JSON",
        help="the Prometheus server of pools that name none: url, headers, tokenFile and"
        " authorityFile",
    )
    parser.add_argument(
        "--hub-token-secret",
        action="append",
        default=[],
        metavar="NAME",
        help="a Secret with credentials for weights that pools may name; repeat it for each one;"
        " without it, any Secret of the pool's namespace",
    )
    parser.add_argument(
        "--cache-host-path",
        action="append",
        default=[],
        metavar="PATH",
        help="a folder of nodes that pools may cache in; repeat it for each one; without it, none",
    )
    parser.add_argument(
        "--gateway-routes",
        action="store_true",
        help="write HTTPRoutes of the Gateway API for pools that ask for one (router.gateway)",
    )
    parsed = parser.parse_args(arguments)
    return OperatorOptions(
        namespaces=_namespaces_of(parsed),
        metrics_port=parsed.metrics_port,
        health_port=parsed.health_port,
        leader_elect=parsed.leader_elect,
        lease_namespace=parsed.lease_namespace,
        identity=f"{socket.gethostname()}_{secrets.token_hex(4)}",
        installation=Installation(
            router_image=os.environ.get("TANDEM_ROUTER_IMAGE", ""),
            launcher_image=os.environ.get("TANDEM_LAUNCHER_IMAGE", ""),
            engine_image_cpu=os.environ.get("TANDEM_ENGINE_CPU_IMAGE", ""),
            engine_image_gpu=os.environ.get("TANDEM_ENGINE_GPU_IMAGE", ""),
            any_pod_template=parsed.allow_any_pod_template,
            any_extra_args=parsed.allow_any_extra_args,
            network=_network_of(parsed),
            gateway_routes=parsed.gateway_routes,
            prometheus_urls=tuple(parsed.prometheus_url),
            prometheus=parsed.prometheus,
            hub_token_secrets=tuple(parsed.hub_token_secret),
            cache_host_paths=tuple(parsed.cache_host_path),
            lease=_lease_of(parsed),
        ),
    )


def _namespaces_of(parsed: argparse.Namespace) -> tuple[str, ...]:
    return tuple(sorted({*parsed.namespace}))


def _lease_of(parsed: argparse.Namespace) -> str | None:
    if not parsed.leader_elect:
        return None
    return f"{parsed.lease_namespace}/{lease_name(_namespaces_of(parsed))}"


def _network_of(parsed: argparse.Namespace) -> Network | None:
    if parsed.no_network_policies:
        return None
    # The Lease is where the operator is.
    return Network(
        operator_namespace=parsed.lease_namespace,
        metrics_from=parsed.metrics_from,
        engine_egress=parsed.engine_egress,
    )


def _objects(text: str) -> tuple[Object, ...]:
    """A list of objects in JSON."""
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError(f"a list of objects was expected, not {text!r}")
    return tuple(found)


async def run(options: OperatorOptions) -> int:
    """Run until asked to stop; returns the exit code."""
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
    """Watch, queue and make passes; returns only by cancellation or a fault."""
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
        pools = PoolLoop(
            kube,
            collector,
            installation=options.installation,
            exported=exported,
            instance=options.identity,
            now=time.time,
            clock=time.monotonic,
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


async def _wait_for_crd(kube: Kube, options: OperatorOptions, health: ProbeHealth) -> None:
    """Wait until pools can be listed; without its CRD the operator is not ready.

    One of its namespaces is enough: another one may be gone, and its rights with it.
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
    """Look at every pool from time to time, should a watch have missed one."""
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
        # At once: nothing that is under way may end as if this process still led.
        os._exit(EXIT_LEASE_LOST)


def _overdue(age_s: float) -> str | None:
    return f"no heartbeat for {age_s:.0f} s" if age_s > HEARTBEAT_LIMIT_S else None


def _call(loop: asyncio.AbstractEventLoop, action: Callable[..., None], *arguments: object) -> None:
    """Call from another thread; a loop that is closing needs no more calls."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(action, *arguments)


async def _until(stop: asyncio.Event, *work: Coroutine[None, None, None]) -> bool:
    """Whether `stop` came before any of `work` ended; a failure of work is raised."""
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
    """One JSON object a line, on standard error."""
    logs.configure(os.environ.get("TANDEM_LOG_LEVEL", "INFO"))
    # kopf tells of every event it hands over; its warnings are what matters.
    logging.getLogger("kopf").setLevel(max(logging.WARNING, logging.getLogger().level))
    # It warns of the signals that this module handles.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)


def main() -> None:
    """Entry point of `tandem-operator`."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    options = options_from(None)
    configure_logging()
    sys.exit(asyncio.run(run(options)))


if __name__ == "__main__":
    main()
