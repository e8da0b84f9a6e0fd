"""The watch over a running vLLM: probes report its findings, and it ends a vLLM that hangs.

A stopped or hung core ignores SIGTERM, and the kubelet would wait for the pod's whole grace period.
So the watch kills the process group, and the launcher ends with the reason.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tandem_engine.serve.engine_settings import EngineSettings
from tandem_engine.serve.lifecycle import Lifecycle, Phase
from tandem_engine.serve.pace import LauncherPace
from tandem_engine.serve.process import EngineProcess
from tandem_engine.serve.progress import Bounds, Look, Progress, Standing
from tandem_engine.serve.vllm_api import UNREACHABLE, CompletionError, VllmApi
from tandem_engine.serve.warm_up import complete, random_prompt

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _TokenProbe:
    """A probe that asks vLLM for one token at a time."""

    settings: EngineSettings
    api: VllmApi
    sent: int = 0
    completed: int = 0
    _task: "asyncio.Task[None] | None" = None

    def ask(self) -> None:
        """Ask for a token, unless the last one is still to come."""
        if self._task is None or self._task.done():
            self.sent += 1
            self._task = asyncio.create_task(self._complete())

    def end(self) -> None:
        """Stop waiting for a token."""
        if self._task is not None:
            self._task.cancel()

    async def _complete(self) -> None:
        with contextlib.suppress(*UNREACHABLE, CompletionError):
            prompt = random_prompt(1, random.Random())
            await complete(self.settings, self.api, [prompt], max_tokens=1)
            self.completed += 1


@dataclass(slots=True)
class EngineWatch:
    """The watch over one vLLM from its start to its end.

    Attributes:
        bounds: longest time without progress; known once vLLM is Ready.
    """

    settings: EngineSettings
    api: VllmApi
    engine: EngineProcess
    lifecycle: Lifecycle
    pace: LauncherPace
    bounds: Bounds | None = None
    _probe: _TokenProbe = field(init=False)
    _progress: Progress | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._probe = _TokenProbe(self.settings, self.api)

    async def run(self) -> None:
        """Look at vLLM without end."""
        with self._probe_ended():
            while True:
                await asyncio.sleep(self.pace.watch_s)
                self.engine.reap_orphans()
                if self.lifecycle.phase not in (Phase.STARTING, Phase.STOPPING):
                    await self._look_at_health()
                if self.lifecycle.phase is Phase.READY and self.bounds is not None:
                    await self._look_at_progress(self.bounds)
                else:
                    self._probe.end()

    @contextlib.contextmanager
    def _probe_ended(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._probe.end()

    async def _look_at_health(self) -> None:
        # The watch over progress judges a missing answer.
        with contextlib.suppress(*UNREACHABLE):
            self.lifecycle.vllm_answers = await self.api.health() < 500

    async def _look_at_progress(self, bounds: Bounds) -> None:
        progress = self._progress
        if progress is None:
            progress = self._progress = Progress(bounds, since_s=time.monotonic())
        if progress.unproven:
            self._probe.ask()
        look = Look(await self.api.counters(), completed=self._probe.completed)
        if self.lifecycle.phase is not Phase.READY:
            return
        standing = progress.observe(look, now_s=time.monotonic())
        self.lifecycle.info["probes"] = {
            "requests": self._probe.sent,
            "prompt_tokens": self._probe.sent,
        }
        words = _words(progress, look)
        if standing is Standing.HUNG:
            log.error("vLLM hangs, so it is ended", extra={"why": words})
            self.lifecycle.fail(f"{words}; the launcher restarts it")
            self.engine.kill()
        elif (self.lifecycle.doubt is None) != (standing is Standing.FINE):
            self.lifecycle.doubt = None if standing is Standing.FINE else words
            _log_doubt(self.lifecycle.doubt)


def _log_doubt(doubt: str | None) -> None:
    if doubt is None:
        log.warning("vLLM generates tokens again")
    else:
        log.warning("vLLM may hang", extra={"why": doubt})


def _words(progress: Progress, look: Look) -> str:
    since = datetime.now(UTC) - timedelta(seconds=time.monotonic() - progress.since_s)
    answers = "does not answer" if look.counters is None else "answers"
    return (
        f"the engine hangs: it has generated no token since {since:%Y-%m-%dT%H:%M:%SZ}, and its "
        f"HTTP server {answers} (last known requests: {progress.requests})"
    )
