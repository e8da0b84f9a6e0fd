"""The first requests, sent before Ready: some kernels fail only then, and first shapes are slow.

They go directly to vLLM, so the router never counts them. /info has their number, for readers of
vLLM's own counters.
"""

import asyncio
import random
import time
import uuid
from dataclasses import dataclass
from typing import Any

from tandem_engine.serve import vllm_metrics
from tandem_engine.serve.engine_settings import EngineSettings, Role
from tandem_engine.serve.vllm_api import UNREACHABLE, CompletionError, VllmApi

COMPLETION_TIMEOUT_S = 900.0
PULL_TIMEOUT_S = 60.0
_RETRY_S = 0.5
_SHORT_TOKENS, _LONG_TOKENS = 8, 256
# Ids that every vocabulary has and to which no tokenizer gives a meaning.
_FIRST_ID, _IDS = 10, 200

# A prefill engine never sees a second token.
_ANSWER_TOKENS = {Role.PREFILL: 1, Role.DECODE: 4}


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The requests of the warm-up and their times; `token_s` is the least per prompt token."""

    requests: int
    prompt_tokens: int
    batch_1_s: float
    full_batch_s: float
    full_batch: int
    token_s: float
    kv_pull: "KvPull | None"


@dataclass(frozen=True, slots=True)
class KvPull:
    """A decode engine's first transfer: `done`, `skipped` or `failed`, and why."""

    state: str
    reason: str | None = None
    tokens: int | None = None
    seconds: float | None = None


async def warm_up(
    settings: EngineSettings, api: VllmApi, *, max_model_len: int | None, draw: random.Random
) -> WarmUp:
    """Run a completion alone and one at full batch, and on decode pull KV blocks once."""
    longest = max(1, (max_model_len or _LONG_TOKENS) // 2)
    alone = [random_prompt(min(_LONG_TOKENS, longest), draw)]
    batch = [random_prompt(min(_SHORT_TOKENS, longest), draw) for _ in range(settings.max_num_seqs)]
    answer_tokens = _ANSWER_TOKENS[settings.role]
    batch_1_s = await complete(settings, api, alone, max_tokens=answer_tokens)
    full_batch_s = await complete(settings, api, batch, max_tokens=answer_tokens)
    pull = None
    if settings.warm_up_peer is not None:
        peer = VllmApi(api.session, settings.warm_up_peer.rstrip("/"))
        pull = await _pull(settings, api, peer, random_prompt(min(_LONG_TOKENS, longest), draw))
    return WarmUp(
        requests=1 + len(batch) + (pull is not None and pull.state == "done"),
        prompt_tokens=sum(map(len, alone + batch)) + ((pull and pull.tokens) or 0),
        batch_1_s=round(batch_1_s, 4),
        full_batch_s=round(full_batch_s, 4),
        full_batch=len(batch),
        token_s=round(
            min(batch_1_s / sum(map(len, alone)), full_batch_s / sum(map(len, batch))), 6
        ),
        kv_pull=pull,
    )


def random_prompt(tokens: int, draw: random.Random) -> list[int]:
    """Return a new prompt of random token ids: a prompt in a prefix cache would warm nothing up."""
    return [_FIRST_ID + draw.randrange(_IDS) for _ in range(tokens)]


def _body(settings: EngineSettings, prompt: list[Any], *, max_tokens: int) -> dict[str, Any]:
    return {
        "model": settings.name,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": False,
    }


async def complete(
    settings: EngineSettings, api: VllmApi, prompts: list[list[int]], *, max_tokens: int
) -> float:
    """Complete all prompts together; return the seconds that it took."""
    body = _body(settings, prompts, max_tokens=max_tokens)
    started = time.monotonic()
    await api.complete(body, request_id=_request_id(), timeout_s=COMPLETION_TIMEOUT_S)
    return time.monotonic() - started


async def _pull(settings: EngineSettings, api: VllmApi, peer: VllmApi, prompt: list[int]) -> KvPull:
    request_id = _request_id()
    body = _body(settings, prompt, max_tokens=1)
    started = time.monotonic()
    try:
        kv = await _prefilled(settings, peer, body, request_id)
    except (*UNREACHABLE, CompletionError) as error:
        return KvPull("skipped", f"no prefill engine answered at {peer.url} ({_why(error)})")
    if not kv:
        return KvPull("skipped", f"{peer.url} gave no KV transfer parameters")
    try:
        before = await _pulled_tokens(api)
        local = body | {"max_tokens": _ANSWER_TOKENS[settings.role], "kv_transfer_params": kv}
        await api.complete(local, request_id=request_id, timeout_s=PULL_TIMEOUT_S)
        tokens = int(await _pulled_tokens(api) - before)
    except (*UNREACHABLE, CompletionError, vllm_metrics.MissingMetricError) as error:
        return KvPull("failed", _why(error))
    seconds = round(time.monotonic() - started, 4)
    if tokens == 0:
        return KvPull("failed", "the blocks were computed here instead", tokens, seconds)
    return KvPull("done", None, tokens, seconds)


async def _prefilled(
    settings: EngineSettings, peer: VllmApi, body: dict[str, Any], request_id: str
) -> dict[str, Any] | None:
    asked = body | {
        "kv_transfer_params": {
            "do_remote_decode": True,
            "do_remote_prefill": False,
            "remote_engine_id": None,
            "remote_block_ids": None,
            "remote_host": None,
            "remote_port": None,
        }
    }
    loop = asyncio.get_running_loop()
    deadline = loop.time() + settings.warm_up_peer_timeout_s
    while True:
        left_s = max(0.1, deadline - loop.time())
        try:
            answer = await peer.complete(asked, request_id=request_id, timeout_s=left_s)
        except UNREACHABLE:
            if loop.time() + _RETRY_S >= deadline:
                raise
            await asyncio.sleep(_RETRY_S)
        else:
            kv: dict[str, Any] | None = answer.get("kv_transfer_params")
            return kv


async def _pulled_tokens(api: VllmApi) -> float:
    return vllm_metrics.total(
        await api.samples(),
        "vllm:prompt_tokens_by_source_total",
        source="external_kv_transfer",
    )


def _request_id() -> str:
    return f"tandem-warm-up-{uuid.uuid4()}"


def _why(error: BaseException) -> str:
    return str(error) or type(error).__name__
