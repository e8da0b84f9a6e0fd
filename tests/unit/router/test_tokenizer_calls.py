"""`/tokenize`, `/detokenize` and counting: any ready engine answers, and nothing is judged."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from tandem_engine.router.forwarding import tokenizers
from tandem_engine.router.http import tokenizer_calls
from tests.unit.router.pool import Pool, until
from tests.unit.router.test_slow_clients import ask

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


async def test_an_answer_that_is_no_json_is_the_engines_fault(pool: Pool) -> None:
    answer = web.Response(text="<p>Welcome</p>", content_type="text/html")
    pool.engines["d0"].script.tokenizer_answer = answer

    status, answer, _ = await pool.post(ASKED["/tokenize"], "/tokenize")

    assert (status, answer["engine"]) == (200, "p0")


async def test_an_unread_answer_is_counted_while_it_is_held_and_then_given_up(
    pool: Pool,
) -> None:
    pool.configure(timeouts={"idle_s": 2.0, "connect_s": 1.0})
    answer = web.json_response({"tokens": ["x" * 1000] * 20_000})
    pool.engines["d0"].script.tokenizer_answer = answer
    _, writer = await ask(pool, path="/tokenize")

    await until(lambda: pool.router.clients.bodies.held_bytes > 20_000_000)
    assert pool.router.clients.requests == 1
    await pool.idle()

    assert counted(pool, "tokenize", "gone") == 1
    assert pool.router.clients.bodies.held_bytes == 0
    writer.close()


@pytest.mark.parametrize("pool", [{"drain_timeout_s": 0.5}], indirect=True)
async def test_an_unread_answer_delays_no_drain(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_calls, "_TAKEN_WITHIN_S", 600.0)
    pool.configure(timeouts={"idle_s": 600.0})
    answer = web.json_response({"tokens": ["x" * 1000] * 20_000})
    pool.engines["d0"].script.tokenizer_answer = answer
    _, writer = await ask(pool, path="/tokenize")
    await until(lambda: pool.router.clients.bodies.held_bytes > 20_000_000)

    async with asyncio.timeout(60):
        await pool.router.drain()

    assert counted(pool, "tokenize", "gone") == 1
    writer.close()


@pytest.mark.parametrize("pool", [{"drain_timeout_s": 0.5}], indirect=True)
async def test_a_request_that_waits_for_an_engine_at_the_end_of_a_drain_gets_an_error(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizers, "_LONGEST_S", 600.0)
    pool.engines["d0"].script.hold = asyncio.Event()
    asked = asyncio.create_task(pool.post(ASKED["/tokenize"], "/tokenize"))
    await until(lambda: pool.engines["d0"].tokenized)

    async with asyncio.timeout(60):
        await pool.router.drain()

    status, answer, _ = await asked
    assert (status, answer["error"]["code"]) == (503, "draining")
    assert counted(pool, "tokenize", "shed") == 1


async def test_a_client_that_reads_its_answer_too_slowly_is_given_up(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_calls, "_TAKEN_WITHIN_S", 0.2)
    answer = web.json_response({"tokens": ["x" * 1000] * 20_000})
    pool.engines["d0"].script.tokenizer_answer = answer
    reader, writer = await ask(pool, path="/tokenize")

    while not counted(pool, "tokenize", "gone"):
        await reader.read(1024)
        await asyncio.sleep(0.01)

    assert pool.router.clients.bodies.held_bytes == 0
    writer.close()


async def test_an_answer_that_finds_no_room_is_shed(pool: Pool) -> None:
    pool.configure(limits={"body_bytes": 100_000, "in_flight_body_bytes": 100_000})
    answer = web.json_response({"tokens": ["x" * 1000] * 1000})
    pool.engines["d0"].script.tokenizer_answer = answer

    status, answer, _ = await pool.post(ASKED["/tokenize"], "/tokenize")

    assert (status, answer["error"]["code"]) == (503, "too_many_body_bytes")
    assert counted(pool, "tokenize", "shed") == 1
    assert pool.router.clients.bodies.held_bytes == 0


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


async def test_a_body_that_would_keep_a_tokenizer_busy_is_refused(pool: Pool) -> None:
    # What a pool allows the bodies of what generates makes no difference.
    pool.configure(max_model_len=None, limits={"body_bytes": 8 * 1024 * 1024})
    raw = json.dumps({"prompt": "a" * (4 * 1024 * 1024)}).encode()

    status, answer, _ = await pool.post(raw, "/tokenize")

    assert (status, answer["error"]["code"]) == (413, "body_too_large")
    assert pool.engines["d0"].tokenized == []


LONG = "a" * (2048 * 16)
TOO_LONG = [
    ("/tokenize", {"prompt": LONG}),
    ("/tokenize", {"messages": [{"role": "user", "content": LONG}]}),
    ("/tokenize", {"messages": [{"role": "user", "content": "a", "image_url": LONG}]}),
    ("/tokenize", {"messages": [{"role": "user", "content": [{"type": "text", "text": LONG}]}]}),
    ("/tokenize", {"messages": [], "tools": [{"type": "image", "source": LONG}]}),
    ("/tokenize", {"prompt": "a", "chat_template_kwargs": {"image_url": LONG}}),
    ("/detokenize", {"tokens": [7] * 10_000}),
    (COUNT, ASKED[COUNT] | {"system": LONG}),
    (COUNT, ASKED[COUNT] | {"messages": [{"role": "user", "content": LONG}]}),
]


@pytest.mark.parametrize(("path", "body"), TOO_LONG)
async def test_what_is_longer_than_any_prompt_reaches_no_tokenizer(
    pool: Pool, path: str, body: dict[str, Any]
) -> None:
    status, answer, _ = await pool.post(body, path)

    assert status == 400
    assert "maximum context length is 2048 tokens, so at most 32768 bytes" in str(answer)
    assert pool.engines["d0"].tokenized == []


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + LONG}},
        {"type": "image", "source": {"type": "base64", "data": LONG}},
        {"type": "tool_result", "content": [{"type": "image", "source": {"data": LONG}}]},
        {"type": "text", "text": "a" * (2048 * 15)},
    ],
)
async def test_a_picture_has_no_length_as_text(pool: Pool, part: dict[str, Any]) -> None:
    for path in ("/tokenize", COUNT):
        messages = [{"role": "user", "content": [part]}]
        status, _, _ = await pool.post({"model": "tiny", "messages": messages}, path)
        assert status == 200


async def test_no_more_than_two_are_at_an_engine_at_once(pool: Pool) -> None:
    engines = pool.engines["d0"], await pool.add("d1")
    hold = engines[0].script.hold = engines[1].script.hold = asyncio.Event()
    asked = [asyncio.create_task(pool.post(ASKED["/tokenize"], "/tokenize")) for _ in range(20)]

    await until(lambda: [len(engine.tokenized) for engine in engines] == [2, 2])
    # What waits does so in the router by then.
    await until(lambda: pool.router.clients.requests == 20)
    await pool.post({"model": "nobody"}, "/tokenize")
    assert [len(engine.tokenized) for engine in engines] == [2, 2]
    assert pool.engines["p0"].tokenized == []
    hold.set()

    assert [status for status, _, _ in await asyncio.gather(*asked)] == [200] * 20


async def test_a_request_that_waits_for_a_place_gets_that_of_a_new_pod(pool: Pool) -> None:
    pool.engines["d0"].script.hold = hold = asyncio.Event()
    asked = [asyncio.create_task(pool.post(ASKED["/tokenize"], "/tokenize")) for _ in range(4)]
    await until(lambda: len(pool.engines["d0"].tokenized) == 2)

    new = await pool.add("d1")
    await until(lambda: len(new.tokenized) == 2)
    hold.set()

    assert [status for status, _, _ in await asyncio.gather(*asked)] == [200] * 4


async def test_a_client_that_leaves_gives_its_place_back(pool: Pool) -> None:
    pool.engines["d0"].script.hold = hold = asyncio.Event()
    asked = [asyncio.create_task(pool.post(ASKED["/tokenize"], "/tokenize")) for _ in range(5)]
    await until(lambda: pool.router.clients.requests == 5)
    for one in asked:
        one.cancel()
    await asyncio.wait(asked)
    hold.set()

    status, _, _ = await pool.post(ASKED["/tokenize"], "/tokenize")

    assert status == 200


async def test_a_drain_waits_for_it(pool: Pool) -> None:
    script = pool.engines["d0"].script
    script.hold = asyncio.Event()
    asked = asyncio.create_task(pool.post(ASKED["/tokenize"], "/tokenize"))
    await until(lambda: pool.engines["d0"].tokenized)

    assert pool.router.clients.requests == 1
    script.hold.set()

    assert (await asked)[0] == 200
    await pool.idle()
