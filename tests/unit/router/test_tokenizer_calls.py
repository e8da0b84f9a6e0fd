"""`/tokenize`, `/detokenize` and counting: any ready engine answers, and nothing is judged."""

import asyncio
import json
from typing import Any

import pytest

from tests.unit.router.pool import Pool, until

COUNT = "/v1/messages/count_tokens"
ASKED: dict[str, dict[str, Any]] = {
    "/tokenize": {"model": "tiny", "prompt": "one two"},
    "/detokenize": {"model": "tiny", "tokens": [7, 8]},
    COUNT: {"model": "tiny", "messages": [{"role": "user", "content": "one"}]},
}
every = pytest.mark.parametrize("path", ASKED)


def counted(pool: Pool, endpoint: str, outcome: str) -> float | None:
    name = "tandem_router_tokenizer_requests_total"
    return pool.metric(name, endpoint=endpoint, outcome=outcome)


@every
async def test_a_decode_pod_answers(pool: Pool, path: str) -> None:
    status, answer, headers = await pool.post(ASKED[path], path)

    assert (status, answer["engine"]) == (200, "d0")
    assert pool.engines["p0"].tokenized == []
    seen = pool.engines["d0"].tokenized[0]
    assert (seen.path, seen.body) == (path, ASKED[path])
    assert headers["X-Request-Id"] == seen.headers["X-Request-Id"]


async def test_a_prefill_pod_answers_where_no_decode_pod_is_ready(pool: Pool) -> None:
    pool.show("d0", ready=False)

    _, answer, _ = await pool.post(ASKED["/tokenize"], "/tokenize")

    assert answer["engine"] == "p0"


async def test_another_pod_answers_where_one_fails(pool: Pool) -> None:
    pool.engines["d0"].script.statuses = [500]

    status, answer, _ = await pool.post(ASKED["/tokenize"], "/tokenize")

    assert (status, answer["engine"]) == (200, "p0")
    assert pool.metric("tandem_router_retries_total", reason="status") is None


async def test_a_pod_that_fails_so_is_not_held_to_be_sick(pool: Pool) -> None:
    pool.engines["d0"].script.statuses = [500] * 20

    for _ in range(20):
        await pool.post(ASKED["/tokenize"], "/tokenize")

    assert pool.router.fleet.ejection.sick() == []


async def test_without_an_engine_it_is_refused_at_once(bare_pool: Pool) -> None:
    status, answer, headers = await bare_pool.post(ASKED["/tokenize"], "/tokenize")

    assert (status, answer["error"]["code"]) == (503, "no_engine")
    assert "Retry-After" in headers
    assert counted(bare_pool, "tokenize", "shed") == 1


@every
async def test_it_is_counted_apart_and_is_no_demand(pool: Pool, path: str) -> None:
    await pool.post(ASKED[path], path)

    assert counted(pool, path.rpartition("/")[2], "answered") == 1
    assert pool.metric("tandem_router_arrivals_total") == 0
    assert pool.metric("tandem_router_requests_total", outcome="good") in (None, 0)


@every
async def test_only_known_fields_reach_an_engine(pool: Pool, path: str) -> None:
    for field in ("chat_template", "mm_processor_kwargs", "kv_transfer_params", "nonsense"):
        status, answer, _ = await pool.post(ASKED[path] | {field: "x"}, path)

        assert status == 400
        assert field in answer["error"]["message"]
    assert pool.engines["d0"].tokenized == []
    assert counted(pool, path.rpartition("/")[2], "refused") == 4


async def test_engines_are_asked_by_their_own_name_for_the_model(pool: Pool) -> None:
    pool.configure(models=["tiny", "alias"])

    await pool.post({"model": "alias", "prompt": "a"}, "/tokenize")
    await pool.post({"prompt": "a"}, "/tokenize")
    status, _, _ = await pool.post({"model": "nobody", "prompt": "a"}, "/tokenize")

    assert [seen.body["model"] for seen in pool.engines["d0"].tokenized] == ["tiny", "tiny"]
    assert status == 404


async def test_counting_for_anthropics_clients_is_refused_in_their_shape(pool: Pool) -> None:
    status, answer, _ = await pool.post(ASKED[COUNT] | {"model": "nobody"}, COUNT)

    assert (status, answer["type"]) == (404, "error")


async def test_a_fault_that_an_engine_finds_is_passed_on(pool: Pool) -> None:
    pool.engines["d0"].script.statuses = [400]
    pool.engines["d0"].script.error = {"error": {"message": "no tokens", "type": "BadRequestError"}}

    status, answer, _ = await pool.post(ASKED["/detokenize"], "/detokenize")

    assert (status, answer["error"]["message"]) == (400, "no tokens")


async def test_a_text_that_would_keep_a_tokenizer_busy_is_refused(pool: Pool) -> None:
    raw = json.dumps({"prompt": "a" * (4 * 1024 * 1024)}).encode()

    status, answer, _ = await pool.post(raw, "/tokenize")

    assert (status, answer["error"]["code"]) == (413, "body_too_large")


async def test_no_more_than_a_few_are_at_engines_at_once(pool: Pool) -> None:
    script = pool.engines["d0"].script
    script.hold = asyncio.Event()
    asked = [asyncio.create_task(pool.post(ASKED["/tokenize"], "/tokenize")) for _ in range(20)]

    await until(lambda: len(pool.engines["d0"].tokenized) == 16)
    await pool.post({"model": "nobody"}, "/tokenize")
    assert len(pool.engines["d0"].tokenized) == 16
    script.hold.set()

    assert [status for status, _, _ in await asyncio.gather(*asked)] == [200] * 20


async def test_a_drain_waits_for_it(pool: Pool) -> None:
    script = pool.engines["d0"].script
    script.hold = asyncio.Event()
    asked = asyncio.create_task(pool.post(ASKED["/tokenize"], "/tokenize"))
    await until(lambda: pool.engines["d0"].tokenized)

    assert pool.router.clients.requests == 1
    script.hold.set()

    assert (await asked)[0] == 200
    await pool.idle()
