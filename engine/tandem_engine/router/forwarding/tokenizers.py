"""Has an engine name or count tokens: whichever is ready, at most a few at a time.

No token is generated, so none of it is judged, and it tells nothing of a pod's health.
"""

import asyncio
from collections.abc import Mapping

from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.forwarding.failures import gateway_error
from tandem_engine.router.forwarding.upstream import Upstream, UpstreamFailure
from tandem_engine.router.openai.errors import unavailable
from tandem_engine.router.openai.tokenizer_body import TokenizerKind
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.pod import Pod, Role
from tandem_routing.pod_choice import least_loaded

_MOST_AT_ONCE = 16
_LONGEST_S = 10.0
_MOST_TRIES = 2
_RETRY_S = 1


class Tokenizers:
    """Asks engines."""

    def __init__(self, *, fleet: EnginePods, upstream: Upstream) -> None:
        self._fleet = fleet
        self._upstream = upstream
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)

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
            async with asyncio.timeout(_LONGEST_S), self._places:
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
            pod = self._pod(tried)
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

    def _pod(self, tried: list[Pod]) -> Pod | None:
        """Return the least loaded pod that was not asked yet: of decode, or else of prefill."""
        for role in (Role.DECODE, Role.PREFILL):
            pod = least_loaded([pod for pod in self._fleet.usable(role) if pod not in tried])
            if pod is not None:
                return pod
        return None
