"""vLLM's HTTP API as the launcher uses it, on its own engine and on a peer."""

import asyncio
from dataclasses import dataclass
from typing import Any

import aiohttp

from tandem_engine.serve import vllm_metrics

UNREACHABLE = (aiohttp.ClientError, TimeoutError, asyncio.TimeoutError, OSError)


class CompletionError(Exception):
    """vLLM answered a completion with an error."""


@dataclass(frozen=True, slots=True)
class VllmApi:
    """One engine's API. All answers except completions must come within `answer_s`."""

    session: aiohttp.ClientSession
    url: str
    answer_s: float = 5.0

    @property
    def _quick(self) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(total=self.answer_s)

    async def health(self) -> int:
        """Return the status of /health: 200, or 503 once the engine is dead."""
        async with self.session.get(f"{self.url}/health", timeout=self._quick) as answer:
            return answer.status

    async def samples(self) -> list[vllm_metrics.MetricLine]:
        """Return the metrics page."""
        async with self.session.get(f"{self.url}/metrics", timeout=self._quick) as answer:
            answer.raise_for_status()
            return vllm_metrics.parse(await answer.text())

    async def load(self) -> vllm_metrics.EngineLoad | None:
        """Return the engine's load, or `None` if it does not report it."""
        try:
            return vllm_metrics.load(await self.samples())
        except (*UNREACHABLE, vllm_metrics.MissingMetricError):
            return None

    async def counters(self) -> vllm_metrics.Counters | None:
        """Return the counters that change while the engine works, or `None` without a report."""
        try:
            return vllm_metrics.counters(await self.samples())
        except (*UNREACHABLE, vllm_metrics.MissingMetricError):
            return None

    async def max_model_len(self, name: str) -> int | None:
        """Return the context length that vLLM chose for the model `name`."""
        async with self.session.get(f"{self.url}/v1/models", timeout=self._quick) as answer:
            answer.raise_for_status()
            models = (await answer.json())["data"]
        return next((model.get("max_model_len") for model in models if model["id"] == name), None)

    async def version(self) -> str | None:
        """Return vLLM's version."""
        async with self.session.get(f"{self.url}/version", timeout=self._quick) as answer:
            body: dict[str, str] = await answer.json()
            return body.get("version")

    async def complete(
        self, body: dict[str, Any], *, request_id: str, timeout_s: float
    ) -> dict[str, Any]:
        """Return the answer to one completion, or raise `CompletionError` with vLLM's words."""
        async with self.session.post(
            f"{self.url}/v1/completions",
            json=body,
            headers={"X-Request-Id": request_id},
            timeout=aiohttp.ClientTimeout(total=timeout_s),
        ) as answer:
            if answer.status != 200:
                text = (await answer.text())[:300]
                raise CompletionError(f"HTTP {answer.status}: {text}")
            result: dict[str, Any] = await answer.json()
            return result
