"""Probes of pods without work: whether they live, and whether they make tokens.

A pod in doubt is asked once for its health: only a frozen pod does not answer. An answer does not
end an ejection. When the time of an ejection is over, a probe asks the pod for a few tokens, so
that no client's request has to find out that it still fails.
"""

import asyncio
import contextlib
import json
import uuid

from tandem_engine.router.forwarding.engine_answer import EngineAnswer
from tandem_engine.router.forwarding.upstream import Upstream, UpstreamFailure, following
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.openai.sse import SHAPE_ERRORS, Events, TokenCount
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.pod import Pod
from tandem_engine.router.settings_in_force import SettingsHolder

PROBE_ID = "tandem-probe-"
"""The prefix of the request ids of probes."""
_LOOK_EVERY_S = 0.5
_COMPLETION_TIMEOUT_S = 5.0
# An engine may break off after its first token.
_TOKENS = 4


class Probes:
    """Probes doubted pods for their health, and ejected pods for a few tokens."""

    def __init__(self, *, fleet: EnginePods, upstream: Upstream, settings: SettingsHolder) -> None:
        self._fleet = fleet
        self._upstream = upstream
        self._settings = settings
        self._asked: set[Pod] = set()

    async def run(self) -> None:
        """Probe for ever, each pod separately."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                doubted = [pod for pod in self._fleet.pods() if pod.doubted]
                for pod in {*doubted, *self._fleet.ejection.due()} - self._asked:
                    self._asked.add(pod)
                    tasks.create_task(self._ask(pod))
                await self._until_needed()

    async def look(self) -> None:
        """Look for slow and hanging pods, for ever."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            self._fleet.ejection.look()

    async def _until_needed(self) -> None:
        """Wait for a change, at most until the next ejection is over."""
        due_s = self._fleet.ejection.next_due_s(apart_from=self._asked)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(due_s):
                await self._fleet.change()

    async def _ask(self, pod: Pod) -> None:
        try:
            if not pod.doubted:
                self._fleet.ejection.probed(pod, seconds=await self._completes(pod))
            elif await self._upstream.lives(pod):
                self._fleet.trust(pod)
            else:
                self._fleet.freeze(pod)
        finally:
            self._asked.discard(pod)
            self._fleet.announce()

    async def _completes(self, pod: Pod) -> float | None:
        """Return the seconds to the first of a few tokens; `None` if it does not make them."""
        settings = self._settings.current
        if settings is None:
            return None
        body = {
            "model": settings.models[0],
            "prompt": "1",
            "max_tokens": _TOKENS,
            "ignore_eos": True,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        began_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(_COMPLETION_TIMEOUT_S):
                answer = await self._upstream.decode(
                    pod,
                    path="/v1/completions",
                    body=json.dumps(body).encode(),
                    headers={"X-Request-Id": f"{PROBE_ID}{uuid.uuid4().hex}"},
                    connect_s=settings.timeouts.connect_s,
                )
                try:
                    return await _first_token_s(answer, began_s=began_s)
                finally:
                    answer.release()
        except (UpstreamFailure, ApiError, TimeoutError):
            return None


async def _first_token_s(answer: EngineAnswer, *, began_s: float) -> float | None:
    """Return the time of the first token of a stream that ends well; `None` otherwise."""
    first_s = None
    events = Events()
    count = TokenCount(choices=1, include_usage=False, continuous_usage=False)
    try:
        while data := await following(answer):
            for payload in events.feed(data):
                chunk = count.read(payload)
                if chunk.error or chunk.finish_reason == "abort":
                    return None
                if chunk.tokens and first_s is None:
                    first_s = asyncio.get_running_loop().time() - began_s
                if chunk.done:
                    return first_s
    except SHAPE_ERRORS:
        pass
    return None
