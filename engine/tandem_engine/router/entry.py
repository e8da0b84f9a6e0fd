"""The router's command line, and its process from the first to the last signal."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import uvloop

from tandem_contracts import logs
from tandem_contracts.names import KEY_ENV
from tandem_engine.router.app import Router, RouterOptions
from tandem_engine.router.discovery.files import FileSource
from tandem_engine.router.discovery.kubernetes_discovery import (
    ClusterSource,
    in_cluster_server,
    own_namespace,
)
from tandem_engine.router.settings_in_force import SettingsError

_TIMING_RECORD_VARIABLE = "TANDEM_TIMING_RECORD"
# New objects, less freed ones, from one pass of the collector to the next.
_COLLECTED_AFTER = 10_000
_EXAMPLE = """\
in a cluster (settings from the ConfigMap POOL-router, pods from the API server):
  tandem-router --pool chat --namespace team-a
anywhere:
  tandem-router --settings router.json --endpoints endpoints.json
where endpoints.json is
  [{"name": "p0", "role": "prefill", "host": "127.0.0.1", "port": 8101, "revision": "a"},
   {"name": "d0", "role": "decode", "host": "127.0.0.1", "port": 8102, "revision": "a"}]
Both sources are followed: an edit is in force at once and restarts nothing.
"""

logger = logging.getLogger("tandem_engine.router")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    defaults = RouterOptions()
    parser = argparse.ArgumentParser(
        prog="tandem-router",
        description="OpenAI-compatible front door of a pool of prefill and decode pods.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    source = parser.add_argument_group("where settings and pods come from")
    source.add_argument("--pool", help="name of the InferencePool")
    source.add_argument("--namespace", help="its namespace (default: this pod's own)")
    source.add_argument("--settings", type=Path, metavar="FILE", help="settings document")
    source.add_argument("--endpoints", type=Path, metavar="FILE", help="list of engine pods")
    ports = parser.add_argument_group("ports")
    ports.add_argument("--host", default=defaults.host, help="address to listen on (all)")
    ports.add_argument(
        "--port", type=int, default=defaults.port, help="clients (%(default)s); 0 picks one"
    )
    ports.add_argument(
        "--internal-port",
        type=int,
        default=defaults.internal_port,
        help="/metrics, /arrivals and /requests (%(default)s)",
    )
    ending = parser.add_argument_group("SIGTERM")
    ending.add_argument(
        "--drain-quiet-s",
        type=float,
        default=defaults.drain_quiet_s,
        help="serve new requests while /ready returns 503, until none arrived for this long"
        " (%(default)s), but for half of the drain at most",
    )
    ending.add_argument(
        "--drain-timeout-s",
        type=float,
        default=defaults.drain_timeout_s,
        help="end running streams with an error event this long after SIGTERM (%(default)s);"
        " keep it below the pod's grace period",
    )
    out = parser.add_argument_group("what is written")
    out.add_argument(
        "--timing-record",
        type=Path,
        metavar="FILE",
        default=os.environ.get(_TIMING_RECORD_VARIABLE),
        help="append one JSON line of times and counts per request, never content (or set"
        f" {_TIMING_RECORD_VARIABLE}, which a pod template can)",
    )
    out.add_argument(
        "--timing-record-mib",
        type=int,
        default=defaults.timing_record_bytes >> 20,
        help="size at which FILE becomes FILE.1 (%(default)s)",
    )
    out.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    return parser


async def serve(arguments: argparse.Namespace) -> None:
    """Run one router until SIGTERM or SIGINT, then drain; a second signal ends it at once."""
    router = Router(
        RouterOptions(
            name=socket.gethostname(),
            host=arguments.host,
            port=arguments.port,
            internal_port=arguments.internal_port,
            drain_quiet_s=arguments.drain_quiet_s,
            drain_timeout_s=arguments.drain_timeout_s,
            # Not an argument: every user that can list processes sees arguments.
            engine_key=os.environ.get(KEY_ENV),
            timing_record=arguments.timing_record,
            timing_record_bytes=arguments.timing_record_mib << 20,
        )
    )
    stop, now = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (now if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    async with aiohttp.ClientSession() as session:
        try:
            _follow_source(router, arguments, session)
            await router.start()
            await router.run_until(stop)
            drain = asyncio.create_task(router.drain())
            hurry = asyncio.create_task(now.wait())
            await asyncio.wait([drain, hurry], return_when=asyncio.FIRST_COMPLETED)
            for task in (drain, hurry):
                task.cancel()
        finally:
            await router.close()


def _follow_source(
    router: Router, arguments: argparse.Namespace, session: aiohttp.ClientSession
) -> None:
    if arguments.settings is not None:
        files = FileSource(
            settings_path=arguments.settings,
            endpoints_path=arguments.endpoints,
            settings=router.settings,
            fleet=router.fleet,
        )
        files.load()
        router.background(files.run())
        return
    namespace = arguments.namespace or own_namespace()
    if namespace is None:
        raise SettingsError("--namespace: needed where no service account is mounted")
    cluster = ClusterSource(
        session=session,
        server=in_cluster_server(),
        namespace=namespace,
        pool=arguments.pool,
        settings=router.settings,
        fleet=router.fleet,
        peers=router.peers,
    )
    for watch in cluster.watches:
        router.background(watch.run())


def configure_logs(arguments: argparse.Namespace) -> None:
    """Log one JSON object a line on standard error, without content of requests."""
    about = {"namespace": arguments.namespace or own_namespace(), "pool": arguments.pool}
    logs.configure(
        arguments.log_level, about={name: value for name, value in about.items() if value}
    )
    # aiohttp logs request lines and peer errors there; both can hold what clients sent.
    for name in ("aiohttp.access", "aiohttp.server", "aiohttp.client", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def spare_the_collector() -> None:
    """Keep passes of the garbage collector few and short: all streams wait for each.

    Requests leave it nothing to free. What exists now is never looked at again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECTED_AFTER, *gc.get_threshold()[1:])


def run(argv: Sequence[str]) -> None:
    """Run the command."""
    grammar = parser()
    arguments = grammar.parse_args(argv)
    files = (arguments.settings is not None, arguments.endpoints is not None)
    if any(files) != all(files):
        grammar.error("--settings and --endpoints are used together")
    if all(files) == (arguments.pool is not None):
        grammar.error("either --pool NAME, or --settings FILE with --endpoints FILE")
    configure_logs(arguments)
    spare_the_collector()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(arguments))
    except (SettingsError, OSError) as error:
        logger.critical("router cannot start", extra={"why": str(error)})
        sys.exit(1)
