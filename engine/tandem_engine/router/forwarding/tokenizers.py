"""Sends tokenizer requests to a ready engine, at most a few at a time for each engine.

An engine reads prompts in one place, so these requests delay requests that generate. They generate
no token. So the router does not judge them, and concludes nothing about the pod.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.forwarding.failures import gateway_error
from tandem_engine.router.forwarding.upstream import Upstream, UpstreamFailure
from tandem_engine.router.openai.errors import unavailable
from tandem_engine.router.openai.tokenizer_body import TokenizerKind
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.pod import Pod, Role
from tandem_routing.pod_choice import least_loaded

_MOST_AT_A_POD = 2
_LONGEST_S = 10.0
_MOST_TRIES = 2
_RETRY_S = 1


class Tokenizers:
    """Sends tokenizer requests to engines."""

    def __init__(self, *, fleet: EnginePods, upstream: Upstream) -> None:
        self._fleet = fleet
        self._upstream = upstream
        self._asked: Counter[Pod] = Counter()
        self._line = asyncio.Lock()
        self._changed = asyncio.Event()
        fleet.listen(self._changed.set)

    async def ask(
        self,
        kind: TokenizerKind,
        body: bytes,
        *,
        headers: Mapping[str, str],
        settings: RouterSettings,
    ) -> bytes:
        """Return an engine's answer; raises `ApiError`."""
        try:
            async with asyncio.timeout(_LONGEST_S):
                return await self._answer(kind, body, headers, settings)
        except TimeoutError:
            raise unavailable(
                "No engine answered in time; send a shorter text, or try again later.",
                code="engine_busy",
                retry_after_s=_RETRY_S,
            ) from None

    async def _answer(
        self, kind: TokenizerKind, body: bytes, headers: Mapping[str, str], settings: RouterSettings
    ) -> bytes:
        failed: UpstreamFailure | None = None
        tried: list[Pod] = []
        for _ in range(_MOST_TRIES):
            async with self._place(tried) as pod:
                if pod is None:
                    break
                tried.append(pod)
                try:
                    return await self._upstream.ask(
                        pod,
                        path=kind.path,
                        body=body,
                        headers=headers,
                        connect_s=settings.timeouts.connect_s,
                    )
                except UpstreamFailure as failure:
                    failed = failure
        if failed is not None:
            raise gateway_error(failed) from failed
        raise unavailable(
            "No engine is ready; try again later.", code="no_engine", retry_after_s=_RETRY_S
        )

    @asynccontextmanager
    async def _place(self, tried: list[Pod]) -> AsyncIterator[Pod | None]:
        """Hold a place at a pod that was not asked yet; `None`: there is no such pod."""
        # Only the first in the line looks: with all of them, each change would wake a crowd.
        async with self._line:
            pod = await self._free(tried)
            if pod is not None:
                self._asked[pod] += 1
        try:
            yield pod
        finally:
            if pod is not None:
                self._asked[pod] -= 1
                if not self._asked[pod]:
                    del self._asked[pod]
                self._changed.set()

    async def _free(self, tried: list[Pod]) -> Pod | None:
        """Wait for a place, and return the least loaded pod that has one."""
        while pods := self._pods(tried):
            free = [pod for pod in pods if self._asked[pod] < _MOST_AT_A_POD]
            if free:
                return least_loaded(free)
            self._changed.clear()
            await self._changed.wait()
        return None

    def _pods(self, tried: list[Pod]) -> list[Pod]:
        """Return the pods that were not asked yet: decode pods, or else prefill pods."""
        for role in (Role.DECODE, Role.PREFILL):
            pods = [pod for pod in self._fleet.usable(role) if pod not in tried]
            if pods:
                return pods
        return []
