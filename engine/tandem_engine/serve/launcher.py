"""The life of one engine: start vLLM, make it Ready, watch it, stop it without a lost request."""

import asyncio
import contextlib
import logging
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import asdict, dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from tandem_engine.serve import vllm_metrics
from tandem_engine.serve.control import control_app
from tandem_engine.serve.drain import Drain, Drained
from tandem_engine.serve.engine_command import EngineCommand
from tandem_engine.serve.engine_facts import read_config
from tandem_engine.serve.engine_failures import explain
from tandem_engine.serve.engine_settings import Device, EngineSettings
from tandem_engine.serve.engine_watch import EngineWatch
from tandem_engine.serve.lifecycle import Lifecycle, Phase
from tandem_engine.serve.measure import Measured, measure
from tandem_engine.serve.pace import LauncherPace
from tandem_engine.serve.pool_fields import Worded, as_given
from tandem_engine.serve.process import EngineProcess
from tandem_engine.serve.progress import bounds_of
from tandem_engine.serve.served_shape import ServedShape, model_shape
from tandem_engine.serve.vllm_api import UNREACHABLE, CompletionError, VllmApi
from tandem_engine.serve.warm_up import WarmUp, warm_up

log = logging.getLogger(__name__)

STOP_MARGIN_S = 5.0


class EngineError(Exception):
    """The engine cannot serve; the text is one sentence for the pool's status."""


@dataclass(frozen=True, slots=True)
class _ModelFacts:
    """The values that a healthy vLLM has chosen."""

    kv_capacity_tokens: int | None
    max_model_len: int | None
    version: str | None


@dataclass(slots=True)
class Launcher:
    """One engine from start to end."""

    settings: EngineSettings
    command: EngineCommand
    revision: str | None = None
    gpu: str | None = None
    key: str | None = field(default=None, repr=False)
    worded: Worded = as_given
    pace: LauncherPace = field(default_factory=LauncherPace)
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    _terminate: asyncio.Event = field(default_factory=asyncio.Event)
    _engine: EngineProcess | None = None
    _hurried: bool = False

    async def run(self) -> None:
        """Serve until told to stop; raise `EngineError` if the engine ends by itself."""
        settings = self.settings
        self.lifecycle.info |= {
            "role": settings.role,
            "revision": self.revision,
            "model": settings.name,
            "max_num_seqs": settings.max_num_seqs,
            "device": self.device,
            "devices": settings.tensor_parallel_size,
            "max_model_len": settings.max_model_len,
            "kv_capacity_tokens": None,
            "warm_up": None,
            "measured": None,
            "shape": None,
            "probes": None,
        }
        # A peer is an engine of the same pool, with the same key.
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else None
        async with (
            _served(self.lifecycle, settings),
            aiohttp.ClientSession(headers=headers) as session,
        ):
            api = VllmApi(session, settings.url, answer_s=self.pace.answer_s)
            self._listen_for_signals()
            engine = self._engine = await EngineProcess.start(self.command)
            try:
                await self._serve(engine, api)
            except EngineError as failure:
                self.lifecycle.fail(str(failure))
                raise
            finally:
                engine.kill()
                await engine.ended()
                engine.reap_orphans()

    @property
    def device(self) -> str | None:
        """Return the driver's name of its device; `None`: not known."""
        if self.settings.device is not Device.CUDA:
            return str(self.settings.device)
        # The driver names the whole GPU in every pod.
        return self.gpu and " ".join(filter(None, [self.gpu, self.settings.gpu_part]))

    def signalled(self) -> None:
        """Leave on the first SIGTERM; stop at once on the second."""
        if self._terminate.is_set() and self._engine is not None:
            log.info("stopping at once, after a second signal")
            self._hurried = True
            self._engine.kill()
            return
        self.lifecycle.leave()
        self._terminate.set()

    def _listen_for_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.signalled)

    async def _serve(self, engine: EngineProcess, api: VllmApi) -> None:
        watch = EngineWatch(self.settings, api, engine, self.lifecycle, self.pace)
        async with _cancelled_at_end(watch.run()):
            if await self._first(engine, self._bring_up(engine, api, watch)):
                await self._first(engine, self._terminate.wait())
                self.lifecycle.leave()
                drained = await self._first(engine, self._drain(api))
                log.info("drained", extra={"why": str(drained)})
            self.lifecycle.enter(Phase.STOPPING)
            await engine.stop(timeout_s=self.settings.stop_timeout_s + STOP_MARGIN_S)

    async def _first(self, engine: EngineProcess, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of `work`, unless vLLM ends before it is done."""
        task, ended = asyncio.ensure_future(work), asyncio.ensure_future(engine.ended())
        try:
            await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if self._hurried:
                return Drained.DEADLINE
            if self.lifecycle.reason is not None:
                raise EngineError(self.lifecycle.reason)
            during = self.lifecycle.phase.value
            raise self._ended(engine, during=f"while {during}")
        finally:
            for one in (task, ended):
                one.cancel()
            await asyncio.gather(task, ended, return_exceptions=True)

    async def _bring_up(self, engine: EngineProcess, api: VllmApi, watch: EngineWatch) -> bool:
        """Return whether the engine became Ready before it was told to stop."""
        work = asyncio.ensure_future(self._get_ready(engine, api, watch))
        stopping = asyncio.ensure_future(self._terminate.wait())
        try:
            await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
                return True
            return False
        finally:
            for one in (work, stopping):
                one.cancel()
            await asyncio.gather(work, stopping, return_exceptions=True)

    async def _get_ready(self, engine: EngineProcess, api: VllmApi, watch: EngineWatch) -> None:
        started = time.monotonic()
        while not await _healthy(api):  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(self.pace.health_poll_s)
        self.lifecycle.enter(Phase.WARMING_UP)
        healthy_s = round(time.monotonic() - started, 3)
        log.info("vLLM is healthy", extra={"after_s": healthy_s})
        draw = random.Random()
        try:
            model_facts = await self._model_facts(api)
            result = await warm_up(
                self.settings, api, max_model_len=model_facts.max_model_len, draw=draw
            )
        except (*UNREACHABLE, CompletionError) as error:
            raise await self._warm_up_failure(engine, error) from None
        measured: Measured | None = None
        try:
            measured = await measure(
                self.settings,
                api,
                max_model_len=model_facts.max_model_len,
                kv_capacity_tokens=model_facts.kv_capacity_tokens,
                draw=draw,
            )
        except (*UNREACHABLE, CompletionError) as error:
            # It is a first guess for the operator, which can work without it.
            log.warning("not measured", extra={"why": str(error) or type(error).__name__})
        shape = await asyncio.to_thread(self._shape)
        self.lifecycle.info |= {
            "vllm_version": model_facts.version,
            "kv_capacity_tokens": model_facts.kv_capacity_tokens,
            "max_model_len": model_facts.max_model_len,
            "healthy_after_s": healthy_s,
            "ready_after_s": round(time.monotonic() - started, 3),
            "warm_up": asdict(result),
            "measured": measured and asdict(measured),
            "shape": shape and asdict(shape),
        }
        known = {"measured": self.lifecycle.info["measured"], "shape": self.lifecycle.info["shape"]}
        log.info("measured", extra=known)
        watch.bounds = bounds_of(self.settings, token_s=_token_s(result, measured))
        self.lifecycle.enter(Phase.READY)
        log.info("ready", extra={"after_s": self.lifecycle.info["ready_after_s"]})
        if result.kv_pull is not None and result.kv_pull.state != "done":
            log.warning("no KV pull in the warm-up", extra={"why": result.kv_pull.reason})

    async def _model_facts(self, api: VllmApi) -> _ModelFacts:
        """Return vLLM's facts about itself; a vLLM that is too busy to answer is asked again."""
        while True:
            with contextlib.suppress(TimeoutError):
                return _ModelFacts(
                    vllm_metrics.kv_capacity_tokens(await api.samples()),
                    await api.max_model_len(self.settings.name),
                    await api.version(),
                )
            await asyncio.sleep(self.pace.health_poll_s)

    def _shape(self) -> ServedShape | None:
        settings = self.settings
        try:
            config = read_config(
                settings.model,
                revision=settings.model_revision,
                environment=dict(os.environ) | self.command.env,
            )
        except (OSError, ValueError) as error:
            log.warning("no shape of the model", extra={"why": str(error)})
            return None
        return model_shape(config, settings) if config is not None else None

    async def _warm_up_failure(self, engine: EngineProcess, error: BaseException) -> EngineError:
        # An engine that a request ends reports the reason a moment after the request has failed.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(engine.ended(), self.pace.last_words_s)
        if engine.exit_code is None:
            return EngineError(f"the first completion failed, so the engine cannot serve: {error}")
        return self._ended(engine, during="at warm-up")

    def _ended(self, engine: EngineProcess, *, during: str) -> EngineError:
        lines, code = list(engine.lines), engine.exit_code
        return EngineError(explain(lines, exit_code=code, during=during, worded=self.worded))

    async def _drain(self, api: VllmApi) -> Drained:
        settings = self.settings
        drain = Drain(
            started_s=time.monotonic(),
            timeout_s=settings.drain_timeout_s,
            settle_s=settings.drain_settle_s,
            lease_s=settings.kv_lease_s,
        )
        while True:
            load = await api.load()
            done = drain.observe(load, now_s=time.monotonic())
            if done is not None:
                return done
            await asyncio.sleep(self.pace.drain_poll_s)


def _token_s(result: WarmUp, measured: Measured | None) -> float:
    """Return the least time of a prompt token, so that compilation at the first is not included."""
    prompts = measured.prefill if measured is not None else ()
    return min([result.token_s, *(each.seconds / each.prompt_tokens for each in prompts)])


async def _healthy(api: VllmApi) -> bool:
    try:
        return await api.health() == 200
    except UNREACHABLE:
        return False


@contextlib.asynccontextmanager
async def _served(lifecycle: Lifecycle, settings: EngineSettings) -> AsyncIterator[None]:
    runner = web.AppRunner(control_app(lifecycle), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.host, settings.control_port).start()
    except OSError as error:
        await runner.cleanup()
        raise EngineError(
            f"--control-port: {settings.host or '*'}:{settings.control_port} cannot be used "
            f"({error.strerror}); choose another port"
        ) from None
    try:
        yield
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def _cancelled_at_end(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
