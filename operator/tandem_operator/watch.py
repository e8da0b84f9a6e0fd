"""The runner of kopf's watches for as long as the operator runs.

kopf gets a thread with its own event loop, because it cancels every task of its loop when it ends.
It ends on watch errors that it takes for fatal. Then it is started again.
"""

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import kopf

from tandem_operator.handlers import OURS, WATCHED_CHILDREN, Changed, registry

log = logging.getLogger(__name__)

PREFIX = "tandem-inference.io"
_LONGEST_BACKOFF_S = 30.0


class EndlessBackoffs:
    """Waits between retries without end: without `__len__` kopf takes none for the last one."""

    def __iter__(self) -> Iterator[float]:
        """Return a new sequence for each request."""
        wait_s = 1.0
        while True:
            yield wait_s * random.uniform(0.75, 1.0)
            wait_s = min(_LONGEST_BACKOFF_S, wait_s * 2)


class PoolWatch:
    """The runner of kopf until it is stopped.

    Args:
        namespaces: the watched namespaces; empty: all.
        changed: called from the thread with each pool to look at, and whether its children changed.
        restarted: called when a watch broke off and starts again.
    """

    def __init__(
        self,
        *,
        namespaces: Collection[str],
        changed: Changed,
        restarted: Callable[[], None],
    ) -> None:
        self._where: dict[str, Any] = {"namespaces": list(namespaces)} if namespaces else {}
        self._changed = changed
        self._restarted = restarted
        self._stopped = threading.Event()
        # kopf waits for a thread's flag in a thread of its own, which no caller could end.
        self._stop_now: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    async def stop(self) -> None:
        """Stop watching, within seconds."""
        self._stopped.set()
        self._stop_now()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join, 5.0)

    @property
    def alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        waits = iter(EndlessBackoffs())
        while not self._stopped.is_set():
            started_s = time.monotonic()
            try:
                asyncio.run(self._watch())
            except Exception:
                log.exception("watching broke off")
            if time.monotonic() - started_s > _LONGEST_BACKOFF_S:
                waits = iter(EndlessBackoffs())
            if not self._stopped.is_set():
                self._restarted()
                self._stopped.wait(next(waits))

    async def _watch(self) -> None:
        loop, flag = asyncio.get_running_loop(), asyncio.Event()

        def stop_now() -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(flag.set)

        self._stop_now = stop_now
        if not self._stopped.is_set():
            await kopf.operator(
                registry=registry(self._changed),
                settings=settings(),
                standalone=True,
                stop_flag=flag,
                **(self._where or {"clusterwide": True}),
            )


def settings() -> kopf.OperatorSettings:
    """Return kopf's settings; each differs from its default for a reason that was measured."""
    chosen = kopf.OperatorSettings()
    # The default prefix is shared by all kopf operators of a cluster.
    chosen.persistence.finalizer = f"{PREFIX}/finalizer"
    chosen.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX, v1=False)
    chosen.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=PREFIX, v1=False)
    chosen.posting.enabled = False
    # Bounded streams: one that ended silently costs five minutes at most.
    chosen.watching.server_timeout = 300
    chosen.watching.client_timeout = 310
    chosen.watching.connect_timeout = 30
    chosen.watching.initial_streaming = True
    labels = ",".join(f"{key}={value}" for key, value in OURS.items())
    for kind in WATCHED_CHILDREN:
        chosen.watching.label_selectors[_selects(kind.group, kind.plural)] = labels
    chosen.networking.request_timeout = 30
    # A finite list would end the operator after a minute of 5xx.
    chosen.networking.error_backoffs = EndlessBackoffs()
    chosen.scanning.disabled = True
    chosen.process.ultimate_exiting_timeout = None
    return chosen


def _selects(group: str, plural: str) -> Callable[[kopf.Resource], bool]:
    return lambda resource: resource.group == group and resource.plural == plural
