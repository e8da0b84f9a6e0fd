"""Leases that run out: a real prefill and a real decode engine, alone and behind a router.

Time is scaled by a lease of 12 s: vLLM renews none below 6 s, and a busy machine may hold up a
request for some. The prefill engine has few blocks, so that those of a lease that ran out hold
another prompt's cache a moment later.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from benchmarks.engines.engine import REQUEST_S, START_S, Pair, RealEngine, new_id, start
from tandem_engine.router.app import Router, RouterOptions
from tandem_engine.router.openai.kv_fields import (
    KV_PARAMS,
    LEASE_S_FIELD,
    LET_GO_FIELD,
    NAME_FIELD,
    REMOTE_DECODE,
)
from tandem_engine.router.pods.pod import Endpoint, Role
from tandem_engine.router.settings_in_force import parse_settings
from tandem_engine.serve.vllm_api import CompletionError, VllmApi
from tests.engine.frozen import counted, expired, overwrite, salted, settled, stopped
from tests.engine.real_engine import SMALL
from tests.unit.router.pool import settings_document

LEASE_S = 12
LEAVERS = 60
BLOCKS_BYTES = 8 * 1024 * 1024
BLOCKS_TOKENS = 4096
LENGTHS = (40, 64, 100, 150, 200, 260, 310, 333)

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(START_S + 60),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(
    python: str, model: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Pair]:
    logs = tmp_path_factory.mktemp("engines")
    common = (f"--model={model}", *SMALL, f"--kv-lease-s={LEASE_S}", "--drain-timeout-s=5")
    async with aiohttp.ClientSession() as session:
        prefill = await start(
            python,
            "--role=prefill",
            *common,
            f"--kv-cache-memory-bytes={BLOCKS_BYTES}",
            session=session,
            log=logs / "prefill.log",
        )
        decode = await start(
            python, "--role=decode", *common, session=session, log=logs / "decode.log"
        )
        try:
            await asyncio.gather(prefill.ready(), decode.ready())
            yield Pair(prefill, decode)
        finally:
            for engine in (prefill, decode):
                await engine.end()


@pytest_asyncio.fixture(loop_scope="module")
async def router(pair: Pair) -> AsyncIterator[Router]:
    router = Router(RouterOptions(host="127.0.0.1", port=0, internal_port=0))
    router.settings.current = parse_settings(
        json.dumps(
            settings_document(
                kv={"lease_s": LEASE_S},
                slo={"ttft_s": 60.0},
                timeouts={"prefill_s": 60.0, "first_token_s": 90.0, "request_s": 120.0},
            )
        )
    )
    await router.start()
    show(router, pair.prefill, Role.PREFILL)
    show(router, pair.decode, Role.DECODE)
    yield router
    await router.close()


def show(router: Router, engine: Any, role: Role, *, ready: bool = True) -> None:
    router.fleet.upsert(
        Endpoint(name=role.value, role=role, host="127.0.0.1", port=engine.port, ready=ready)
    )


async def through(router: Router, body: dict[str, Any]) -> list[int]:
    """Return the answer through the router, as token ids; raises for any that is none."""
    timeout = aiohttp.ClientTimeout(total=REQUEST_S)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(f"http://127.0.0.1:{router.port}/v1/completions", json=body) as answer,
    ):
        document = await answer.json()
        assert answer.status == 200, document
        tokens: list[int] = document["choices"][0]["token_ids"]
        return tokens


async def let_go(engine: RealEngine, params: dict[str, Any]) -> None:
    """Have an engine let go of blocks, as the router has it do so."""
    body = {"model": "none", "prompt": [0], "max_tokens": 1, KV_PARAMS: params}
    with pytest.raises(CompletionError, match="404"):
        await engine.api.complete(body, request_id=new_id(), timeout_s=REQUEST_S)


def named(body: dict[str, Any], lease: str) -> dict[str, Any]:
    """Return the request to a prefill engine for the blocks of a prompt, under a name."""
    return body | {"max_tokens": 1, KV_PARAMS: REMOTE_DECODE | {NAME_FIELD: lease}}


async def references(pair: Pair) -> list[list[int]]:
    """Return the answers of one undisturbed engine; a salt of its own leaves nothing for others."""
    return [await pair.prefill.tokens(salted(length)) for length in LENGTHS]


def wrong(answers: list[list[int]], right: list[list[int]]) -> int:
    """Return how many of these answers are not right, token by token."""
    return sum(answer != alone for answer, alone in zip(answers, right, strict=True))


async def test_what_is_pulled_after_its_lease_is_computed_again(pair: Pair) -> None:
    alone = await references(pair)
    bodies = [salted(length) for length in LENGTHS]
    ids = [new_id() for _ in bodies]
    parameters = [await pair.prefilled(body, one) for body, one in zip(bodies, ids, strict=True)]
    before = await expired(pair.prefill)
    with stopped(pair.decode):
        asked = [
            asyncio.create_task(
                pair.decode.api.complete(
                    body | {KV_PARAMS: each}, request_id=one, timeout_s=REQUEST_S
                )
            )
            for body, each, one in zip(bodies, parameters, ids, strict=True)
        ]
        async with asyncio.timeout(REQUEST_S):
            while await expired(pair.prefill) < before + len(bodies):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.2)
        await overwrite(pair.prefill, capacity_tokens=BLOCKS_TOKENS)

    answers = await asyncio.gather(*asked)

    assert wrong([answer["choices"][0]["token_ids"] for answer in answers], alone) == 0
    # Nothing of it stayed in the decode engine's own cache either.
    assert wrong([await pair.decode.tokens(body) for body in bodies], alone) == 0


async def test_what_a_stopped_prefill_engine_gives_after_its_lease_is_computed_again(
    pair: Pair,
) -> None:
    alone = await references(pair)
    bodies = [salted(length) for length in LENGTHS]
    ids = [new_id() for _ in bodies]
    parameters = [await pair.prefilled(body, one) for body, one in zip(bodies, ids, strict=True)]
    async with aiohttp.ClientSession() as session:
        # It closes connections that were idle for as long as it was stopped.
        anew = replace(pair.prefill, api=VllmApi(session, pair.prefill.api.url))
        with stopped(pair.prefill):
            asked = [
                asyncio.create_task(
                    pair.decode.api.complete(
                        body | {KV_PARAMS: each}, request_id=one, timeout_s=REQUEST_S
                    )
                )
                for body, each, one in zip(bodies, parameters, ids, strict=True)
            ]
            others = asyncio.create_task(overwrite(anew, capacity_tokens=BLOCKS_TOKENS))
            # A stopped engine does not say that its leases are over.
            await asyncio.sleep(LEASE_S + 1)
        answers = await asyncio.gather(*asked)
        await others

    assert wrong([answer["choices"][0]["token_ids"] for answer in answers], alone) == 0
    assert wrong([await pair.decode.tokens(body) for body in bodies], alone) == 0


async def test_a_frozen_decode_engine_gives_no_wrong_token_through_the_router(
    pair: Pair, router: Router
) -> None:
    alone = await references(pair)
    await settled(pair.prefill)
    before = await expired(pair.prefill)
    with stopped(pair.decode):
        asked = [asyncio.create_task(through(router, salted(length))) for length in LENGTHS]
        async with asyncio.timeout(REQUEST_S):
            while await expired(pair.prefill) < before + len(LENGTHS):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.2)
        await overwrite(pair.prefill, capacity_tokens=BLOCKS_TOKENS)

    assert wrong(await asyncio.gather(*asked), alone) == 0


async def test_a_lease_is_let_go_by_its_name(pair: Pair) -> None:
    await settled(pair.prefill)
    before = await expired(pair.prefill)
    lease = new_id()
    answer = await pair.prefill.api.complete(
        named(salted(200), lease), request_id=new_id(), timeout_s=REQUEST_S
    )
    assert answer[KV_PARAMS][NAME_FIELD] == lease
    assert answer[KV_PARAMS][LEASE_S_FIELD] == LEASE_S

    await let_go(pair.prefill, {"do_remote_prefill": True, LET_GO_FIELD: lease})

    await settled(pair.prefill)
    assert await expired(pair.prefill) == before


async def test_a_lease_that_was_let_go_first_never_begins(pair: Pair) -> None:
    await settled(pair.prefill)
    before = await expired(pair.prefill)
    lease = new_id()
    await let_go(pair.prefill, {"do_remote_prefill": True, LET_GO_FIELD: lease})

    answer = await pair.prefill.api.complete(
        named(salted(200), lease), request_id=new_id(), timeout_s=REQUEST_S
    )

    assert answer.get(KV_PARAMS) is None
    await settled(pair.prefill)
    assert await expired(pair.prefill) == before


async def test_a_decode_engine_lets_go_of_what_never_came_to_it(pair: Pair) -> None:
    alone = await pair.prefill.tokens(body := salted(200))
    await settled(pair.prefill)
    before, failed = await expired(pair.prefill), await unrecognized(pair.prefill)
    parameters = await pair.prefilled(body, request_id := new_id())

    await let_go(pair.decode, parameters | {LET_GO_FIELD: parameters["remote_request_id"]})

    await settled(pair.prefill)
    assert await expired(pair.prefill) == before
    # It comes after all: nothing is pulled any more.
    answer = await pair.decode.api.complete(
        body | {KV_PARAMS: parameters}, request_id=request_id, timeout_s=REQUEST_S
    )
    assert answer["choices"][0]["token_ids"] == alone
    assert await unrecognized(pair.prefill) == failed


async def test_a_decode_engine_does_not_let_go_of_what_it_has(pair: Pair) -> None:
    alone = await references(pair)
    bodies = [salted(length) for length in LENGTHS]
    parameters = [await pair.prefilled(body, new_id()) for body in bodies]
    failed = await unrecognized(pair.prefill)

    async def answered(body: dict[str, Any], params: dict[str, Any]) -> list[int]:
        answer, _ = await asyncio.gather(
            pair.decode.api.complete(
                body | {KV_PARAMS: params}, request_id=new_id(), timeout_s=REQUEST_S
            ),
            let_go(pair.decode, params | {LET_GO_FIELD: params["remote_request_id"]}),
        )
        tokens: list[int] = answer["choices"][0]["token_ids"]
        return tokens

    answers = await asyncio.gather(*map(answered, bodies, parameters))

    assert wrong(list(answers), alone) == 0
    assert await unrecognized(pair.prefill) == failed


async def test_clients_that_leave_at_any_moment_leave_no_blocks_behind(
    pair: Pair, router: Router
) -> None:
    draw = random.Random(22)
    await through(router, salted(64))
    asked_s = time.perf_counter()
    await asyncio.gather(*(through(router, salted(800)) for _ in range(4)))
    whole_s = time.perf_counter() - asked_s
    await settled(pair.prefill)
    before = await expired(pair.prefill)

    for _ in range(LEAVERS // 4):
        await asyncio.gather(
            *(leave(router, after_s=draw.uniform(0.02, 1.0) * whole_s) for _ in range(4))
        )

    await settled(pair.prefill)
    assert await expired(pair.prefill) == before


async def leave(router: Router, *, after_s: float) -> None:
    """Ask, and leave at some moment, before the end of the answer or after it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(after_s):
            await through(router, salted(800))


async def unrecognized(engine: RealEngine) -> float:
    """Return the count of pulls so far from blocks that belonged to no lease any more."""
    return await counted(engine, "vllm:nixl_num_notifications_after_expiry_total")
