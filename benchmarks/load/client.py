"""One completion, streamed or not, timed from outside the way the SLO defines it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from benchmarks.load.plan import PlannedRequest
from benchmarks.load.record import Outcome, Record

DONE = b"[DONE]"


class BrokenStreamError(Exception):
    """A stream that began, or an answer that came, but not to its proper end."""


@dataclass(slots=True)
class _Progress:
    """The part of a stream that was seen so far. Times are `perf_counter` readings."""

    status: int | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None
    chunks: int = 0
    usage_tokens: int | None = None
    finished: bool = field(default=False)
    token_ids: list[int] = field(default_factory=list)

    def see(self, payload: bytes, *, now: float) -> None:
        """Account for one `data:` line."""
        if payload == DONE:
            self.finished = True
            return
        event: dict[str, Any] = json.loads(payload)
        if "error" in event:
            raise BrokenStreamError(
                f"error in the stream: {event['error'].get('message', 'no text')}"
            )
        if usage := event.get("usage"):
            self.usage_tokens = usage["completion_tokens"]
        for choice in event.get("choices", ()):
            self.token_ids += choice.get("token_ids") or ()
        if any(_has_token(choice) for choice in event.get("choices", ())):
            self.first_token_at = self.first_token_at or now
            self.last_token_at = now
            self.chunks += 1

    def see_whole(self, answer: dict[str, Any]) -> None:
        """Account for an answer that was not streamed; when its tokens were made is not known."""
        self.usage_tokens = answer["usage"]["completion_tokens"]
        self.token_ids += answer["choices"][0].get("token_ids") or ()
        self.finished = True

    @property
    def output_tokens(self) -> int:
        """Return the tokens as the engine counts them; chunks only where it does not say."""
        return self.chunks if self.usage_tokens is None else self.usage_tokens

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first."""
        if self.first_token_at is None or self.last_token_at is None or self.output_tokens < 2:
            return None
        return (self.last_token_at - self.first_token_at) / (self.output_tokens - 1)


def _has_token(choice: dict[str, Any]) -> bool:
    """Return whether a choice carries generated text; a chat's opening role chunk does not."""
    if "text" in choice:
        return True
    delta = choice.get("delta", {})
    return bool(delta.get("content")) or ("role" not in delta and "content" in delta)


async def stream_lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the payload of each `data:` line of a server-sent-event stream as it arrives."""
    async for line in response.content:
        if line.startswith(b"data:"):
            yield line[5:].strip()


async def send(
    session: aiohttp.ClientSession,
    planned: PlannedRequest,
    *,
    url: str,
    model: str,
    traffic: str,
    late_s: float,
    timeout_s: float,
) -> Record:
    """Send one request, read its stream to the end, and say what happened; raises nothing."""
    body = json.dumps(_body(planned, model=model)).encode()
    headers = {"X-Request-Id": planned.request_id, "Content-Type": "application/json"}
    progress = _Progress()
    outcome, why = Outcome.FINISHED, None
    sent_s, sent_at = time.time(), time.perf_counter()
    try:
        async with (
            asyncio.timeout(timeout_s),
            session.post(f"{url}/v1/completions", data=body, headers=headers) as response,
        ):
            progress.status = response.status
            if response.status != 200:
                outcome, why = await _refusal(response)
            elif not planned.streamed:
                progress.see_whole(await response.json())
            else:
                async for payload in stream_lines(response):
                    progress.see(payload, now=time.perf_counter())
                if not progress.finished:
                    raise BrokenStreamError("stream ended without [DONE]")
    except TimeoutError:
        outcome, why = Outcome.FAILED, f"no end within {timeout_s:g} s"
    except (aiohttp.ClientError, BrokenStreamError, ValueError, LookupError) as error:
        outcome, why = Outcome.FAILED, f"{type(error).__name__}: {error}"
    elapsed_s = time.perf_counter() - sent_at
    return Record(
        request_id=planned.request_id,
        traffic=traffic,
        sent_s=sent_s,
        late_s=late_s,
        elapsed_s=elapsed_s,
        prompt_tokens=len(planned.prompt_token_ids),
        output_tokens=progress.output_tokens,
        outcome=outcome,
        ttft_s=None if progress.first_token_at is None else progress.first_token_at - sent_at,
        tpot_s=progress.tpot_s,
        status=progress.status,
        why=why,
        token_ids=tuple(progress.token_ids) if planned.wants_token_ids else None,
    )


def _body(planned: PlannedRequest, *, model: str) -> dict[str, Any]:
    """Return the body of a request: it asks for so many tokens, whatever they are."""
    body: dict[str, Any] = {
        "model": model,
        "prompt": planned.prompt_token_ids,
        "max_tokens": planned.output_tokens,
        "min_tokens": planned.output_tokens,
        "ignore_eos": True,
        "temperature": 0,
    }
    if planned.streamed:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if planned.cache_salt is not None:
        body["cache_salt"] = planned.cache_salt
    if planned.wants_token_ids:
        body["return_token_ids"] = True
    return body


async def _refusal(response: aiohttp.ClientResponse) -> tuple[Outcome, str]:
    """Name an answer other than 200; a server that says when to come back has shed the request."""
    text = (await response.text())[:300]
    try:
        message = json.loads(text)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = text
    shed = response.status in {429, 503} and "Retry-After" in response.headers
    return Outcome.SHED if shed else Outcome.FAILED, f"HTTP {response.status}: {message}"
