"""Bad requests get one clear sentence in OpenAI's shape, and are no arrivals."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tandem_engine.router.openai.call import parse_call
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.fields import CHUNKED, REFUSED
from tests.unit.router.pool import Pool, until

BAD_BODIES: list[tuple[Any, int, str]] = [
    (b"{", 400, "not valid JSON"),
    (b"\xff\xfe", 400, "not valid JSON"),
    (b"[" * 100, 400, "not valid JSON"),
    (b"[" * 100_000, 400, "nested too deeply"),
    (
        b'{"model": "tiny", "prompt": [' + b"[]," * 150_000 + b"[]]}",
        413,
        "more than 262144 values",
    ),
    (
        b'{"model": "tiny", "prompt": [' + b'"",' * 300_000 + b'""]}',
        413,
        "more than 262144 values",
    ),
    (b'{"model": "tiny", "prompt": "x", "temperature": NaN}', 400, "NaN"),
    (b'{"model": "tiny", "prompt": "x", "temperature": -Infinity}', 400, "-Infinity"),
    (b'{"model": "tiny", "prompt": "x", "temperature": 1e999}', 400, "Infinity"),
    (b'{"model": "tiny", "prompt": "x", "logit_bias": {"5": NaN}}', 400, "NaN"),
    (b"[1]", 400, "JSON object"),
    ({"prompt": "x"}, 400, "model"),
    ({"model": 7, "prompt": "x"}, 400, "model"),
    ({"model": "other", "prompt": "x"}, 404, "'tiny'"),
    ({"model": "tiny"}, 400, "prompt"),
    ({"model": "tiny", "prompt": []}, 400, "prompt"),
    ({"model": "tiny", "prompt": [1, "x"]}, 400, "prompt"),
    ({"model": "tiny", "prompt": [-1]}, 400, "prompt"),
    ({"model": "tiny", "prompt": [True]}, 400, "prompt"),
    ({"model": "tiny", "prompt": "x", "stream": "yes"}, 400, "stream"),
    ({"model": "tiny", "prompt": "x", "stream_options": {}}, 400, "stream_options"),
    ({"model": "tiny", "prompt": "x", "n": 0}, 400, "n must"),
    ({"model": "tiny", "prompt": "x", "n": 17}, 400, "n must be a whole number from 1 to 16"),
    ({"model": "tiny", "prompt": "x", "n": 10**400}, 400, "n must"),
    ({"model": "tiny", "prompt": "x", "best_of": 10**400}, 400, "best_of must"),
    ({"model": "tiny", "prompt": "x", "max_tokens": -1}, 400, "max_tokens"),
    ({"model": "tiny", "prompt": "x", "max_tokens": "many"}, 400, "max_tokens"),
    ({"model": "tiny", "prompt": "x", "prompt_logprobs": 1}, 400, "prompt_logprobs"),
    ({"model": "tiny", "prompt": "x", "use_beam_search": True}, 400, "use_beam_search"),
    ({"model": "tiny", "prompt": ["x"] * 20_000}, 400, "at most 16"),
    ({"model": "tiny", "prompt": [[5], [6], [7]], "n": 6}, 400, "at most 16"),
    ({"model": "tiny", "prompt": ["x"] * 3, "best_of": 6}, 400, "at most 16"),
    ({"model": "tiny", "prompt": "x", "logprobs": -1}, 400, "logprobs must be a number"),
    ({"model": "tiny", "prompt": "x", "top_logprobs": -1}, 400, "top_logprobs must be a number"),
    ({"model": "tiny", "prompt": "x", "logprobs": 10**400}, 400, "set logprobs to 2047 or less"),
    ({"model": "tiny", "prompt": "x", "logprobs": 2047}, 400, "use stream: true"),
    (
        {"model": "tiny", "prompt": "x", "logprobs": 2048, "stream": True},
        400,
        "set logprobs to 2047 or less",
    ),
    (
        {"model": "tiny", "prompt": "x", "n": 16, "logprobs": 200, "stream": True},
        400,
        "logprobs to 127 or less",
    ),
    (
        {"model": "tiny", "prompt": "x", "logprob_token_ids": list(range(3000)), "stream": True},
        400,
        "logprob_token_ids to 2047 or less",
    ),
    ({"model": "tiny", "prompt": "x", "n": 16, "logprobs": 20, "max_tokens": 2000}, 400, "262144"),
    ({"model": "tiny", "prompt": [5] * 2048}, 400, "2048"),
    ({"model": "tiny", "prompt": [5] * 2049, "max_tokens": 0}, 400, "2048"),
    ({"model": "tiny", "prompt": [5] * 4000, "truncate_prompt_tokens": 2048}, 400, "2048"),
]


@pytest.mark.parametrize(("body", "status", "word"), BAD_BODIES, ids=range(len(BAD_BODIES)))
async def test_bad_bodies_are_refused_with_a_sentence(
    pool: Pool, body: Any, status: int, word: str
) -> None:
    got, answer, _ = await pool.post(body)

    assert got == status
    assert word in answer["error"]["message"]
    assert set(answer["error"]) == {"message", "type", "param", "code"}
    assert pool.engines["p0"].seen == pool.engines["d0"].seen == []
    assert (await pool.arrivals())["arrivals"] == []
    assert pool.metric("tandem_router_requests_total", outcome="refused") == 1


LONG = {"max_model_len": 1_000_000}


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({"n": 16, "logprobs": 20}, {}),
        ({"n": 16, "logprobs": 20}, LONG),
        ({"n": 16, "logprobs": 20, "max_tokens": 131_072}, LONG),
        ({"logprobs": 20, "max_tokens": 1_000_000}, LONG),
        ({"n": 16, "logprobs": 127}, {}),
        ({"logprobs": 2047}, {}),
    ],
    ids=str,
)
async def test_logprobs_that_an_honest_client_asks_for_are_streamed(
    pool: Pool, fields: dict[str, Any], settings: dict[str, Any]
) -> None:
    pool.configure(**settings)

    assert (await pool.stream(**fields))[-1] == "[DONE]"


async def test_all_logprobs_of_a_stream_are_bounded_and_the_refusal_names_what_works(
    pool: Pool,
) -> None:
    pool.configure(**LONG)
    fields = {"model": "tiny", "prompt": "x", "n": 16, "logprobs": 127, "stream": True}

    status, answer, _ = await pool.post({**fields, "max_tokens": 40_000})

    assert status == 400
    assert answer["error"]["param"] == "logprobs"
    assert "max_tokens to 32768 or less" in answer["error"]["message"]
    assert (await pool.stream("x", n=16, logprobs=127, max_tokens=32_768))[-1] == "[DONE]"


@pytest.mark.parametrize(
    "field",
    ['"metadata": %s', '"tools": %s', '"messages": [{"role": "user", "content": %s}]'],
    ids=["dropped field", "tools", "content"],
)
@pytest.mark.parametrize("brackets", [("[", "]"), ('[{"text":', "}]")], ids=["lists", "texts"])
async def test_a_body_nested_too_deeply_is_the_clients_fault(
    pool: Pool, field: str, brackets: tuple[str, str]
) -> None:
    opening, closing = brackets
    for depth in [*range(100 // len(closing), 140 // len(closing)), 1000, 100_000]:
        value = field % (opening * depth + '"a"' + closing * depth)
        raw = '{"model": "tiny", "messages": [{"role": "user", "content": "a"}], ' + value + "}"
        status, answer, _ = await pool.post(raw.encode(), "/v1/chat/completions")
        assert status == 200 or (status, answer["error"]["code"]) == (400, "invalid_json")

    assert status == 400
    assert pool.metric("tandem_router_requests_total", outcome="failed") == 0


async def test_more_output_than_the_model_can_make_is_the_engines_to_refuse_or_cut(
    pool: Pool,
) -> None:
    status, _ = await pool.complete(max_tokens=10**400)

    assert status == 200
    assert pool.engines["d0"].seen[0].body["max_tokens"] == 10**400


@pytest.mark.parametrize(
    "asked",
    [
        {"prompt": [5] * 2000, "max_tokens": 100},
        {"prompt": [5] * 2047, "max_tokens": 2048},
        {"prompt": [5] * 2048, "max_tokens": 0},
        {"prompt": [5] * 4000, "truncate_prompt_tokens": 1000, "max_tokens": 2000},
        {"prompt": [5] * 4000, "truncate_prompt_tokens": -1},
    ],
    ids=["long", "longest", "without answer", "truncated", "truncated to fit"],
)
async def test_a_prompt_of_token_ids_is_left_to_be_cut_as_a_text_is(
    pool: Pool, asked: dict[str, Any]
) -> None:
    status, _, _ = await pool.post({"model": "tiny", **asked})

    assert status == 200


@pytest.mark.parametrize(("asked", "tokens"), [(1000, 1000), (-1, 2047), (None, 1200)])
async def test_of_a_prompt_that_is_truncated_what_is_kept_counts(
    pool: Pool, asked: int | None, tokens: int
) -> None:
    settings = pool.router.settings.current
    assert settings is not None
    prompt = [5] * (1200 if asked is None else 4000)
    body = {"model": "tiny", "prompt": prompt, "truncate_prompt_tokens": asked}

    call = parse_call(EndpointKind.COMPLETIONS, json.dumps(body).encode(), settings)

    assert call.prompt.exact_tokens == tokens


async def test_no_more_output_is_reckoned_with_than_the_model_can_make(pool: Pool) -> None:
    settings = pool.router.settings.current
    assert settings is not None
    raw = json.dumps({"model": "tiny", "prompt": "x", "max_tokens": 10**400}).encode()

    call = parse_call(EndpointKind.COMPLETIONS, raw, settings)

    assert call.max_output_tokens == 2048


@pytest.mark.parametrize("messages", [None, [], "hello", ["hello"]])
async def test_chats_without_messages_are_refused(pool: Pool, messages: Any) -> None:
    body = {"model": "tiny", "messages": messages}

    status, answer, _ = await pool.post(body, "/v1/chat/completions")

    assert status == 400
    assert answer["error"]["param"] == "messages"


async def test_a_body_that_declares_too_many_bytes_is_refused(pool: Pool) -> None:
    pool.configure(limits={"body_bytes": 1000})

    status, answer, _ = await pool.post({"model": "tiny", "prompt": "x" * 2000})

    assert status == 413
    assert "1000 bytes" in answer["error"]["message"]


async def test_a_body_that_never_says_its_size_is_refused_when_it_grows_too_large(
    pool: Pool,
) -> None:
    pool.configure(limits={"body_bytes": 1000})

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 100

    async with pool.client.post(pool.url + "/v1/completions", data=endless()) as response:
        assert response.status == 413


async def test_a_body_that_does_not_arrive_is_not_waited_for_for_ever(pool: Pool) -> None:
    pool.configure(timeouts={"body_s": 0.1})
    reader, writer = await asyncio.open_connection("127.0.0.1", pool.router.port)

    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
    # Less than the time that a body has unless the settings say otherwise.
    head = await asyncio.wait_for(reader.readline(), 9)

    assert b" 408 " in head
    writer.close()


async def test_a_body_in_broken_chunks_is_refused(pool: Pool) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", pool.router.port)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

    writer.write(head)
    await writer.drain()
    writer.write(b"5\r\nhello\r\nNOT-A-SIZE\r\n")
    answer = await asyncio.wait_for(reader.readline(), 60)

    assert b" 400 " in answer
    writer.close()


async def test_a_client_that_leaves_in_mid_body_is_no_arrival(pool: Pool) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", pool.router.port)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
    await writer.drain()
    await until(lambda: pool.router.clients.requests == 1)

    writer.close()

    await pool.idle()
    assert pool.metric("tandem_router_arrivals_total") == 0


@pytest.mark.parametrize("text", ["\\ud800", "héllo", "\\u0000"])
async def test_odd_characters_survive_the_way(pool: Pool, text: str) -> None:
    raw = f'{{"model": "tiny", "prompt": "{text}"}}'.encode()

    status, _, _ = await pool.post(raw)

    assert status == 200
    assert pool.engines["d0"].seen[0].body["prompt"] == json.loads(raw)["prompt"]


async def test_headers_beyond_the_limit_are_refused(pool: Pool) -> None:
    pool.configure(limits={"header_bytes": 1024})

    status, answer, _ = await pool.post(
        {"model": "tiny", "prompt": "x"}, headers={"X-Big": "y" * 2000}
    )

    assert status == 431
    assert answer["error"]["code"] == "headers_too_large"


async def test_what_is_not_http_gets_the_same_kind_of_answer(pool: Pool) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", pool.router.port)

    writer.write(b"GET /health HTTP/1.1\r\nBad Header\x00: secret-header\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 60)

    assert b" 400 " in answer.split(b"\r\n")[0]
    assert b'"code": "invalid_http"' in answer
    assert b"secret-header" not in answer
    writer.close()


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/embeddings", "/metrics", "/arrivals"])
async def test_unknown_paths_get_an_openai_error(pool: Pool, path: str) -> None:
    async with pool.client.get(pool.url + path) as response:
        assert response.status == 404
        assert (await response.json())["error"]["code"] == "unknown_path"


async def test_the_wrong_method_is_named(pool: Pool) -> None:
    async with pool.client.get(pool.url + "/v1/completions") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "POST"
        assert "POST" in (await response.json())["error"]["message"]


async def test_an_engines_own_refusal_reaches_the_client_and_is_no_violation(pool: Pool) -> None:
    pool.engines["p0"].script.statuses = [400]
    pool.engines["p0"].script.error = {
        "error": {"message": "temperature too low", "type": "BadRequestError", "code": 400}
    }

    status, answer = await pool.complete()

    assert status == 400
    assert answer["error"]["message"] == "temperature too low"
    assert pool.engines["d0"].seen == []
    assert (await pool.arrivals())["finished"] == []
    assert pool.metric("tandem_router_requests_total", outcome="refused") == 1


@pytest.mark.parametrize("role", ["p0", "d0"])
async def test_what_an_engine_refuses_was_no_arrival_after_all(pool: Pool, role: str) -> None:
    await pool.stream([5] * 600)
    before = (await pool.arrivals())["arrivals"]
    pool.engines["p0"].script.cached_tokens = 2
    pool.engines[role].script.statuses = [400]

    status, _ = await pool.complete("word " * 300)

    assert status == 400
    assert (await pool.arrivals())["arrivals"] == before
    assert pool.metric("tandem_router_requests_total", outcome="refused") == 1


async def test_a_second_of_refusals_saw_nothing(pool: Pool) -> None:
    pool.engines["p0"].script.statuses = [400]

    await pool.complete()

    assert (await pool.arrivals())["arrivals"] == []


async def test_no_prompt_counts_for_more_than_the_model_takes(pool: Pool) -> None:
    pool.engines["p0"].script.hold = asyncio.Event()
    task = asyncio.create_task(pool.complete("x" * 40_000))
    await pool.engines["p0"].wait_seen(1)

    [[_, requests, tokens, _]] = (await pool.arrivals())["arrivals"]

    assert (sum(requests), sum(tokens)) == (1, 2048)
    task.cancel()


async def test_a_body_said_to_be_too_large_is_refused_before_it_counts_for_anything(
    pool: Pool,
) -> None:
    pool.configure(limits={"concurrent_requests": 1})
    pool.engines["p0"].script.hold = asyncio.Event()
    task = asyncio.create_task(pool.complete([5] * 7))
    await pool.engines["p0"].wait_seen(1)
    reader, writer = await asyncio.open_connection("127.0.0.1", pool.router.port)

    writer.write(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 4%s\r\n\r\n" % (b"0" * 15)
    )
    head = await asyncio.wait_for(reader.readline(), 60)

    assert b" 413 " in head
    [[_, _, tokens, _]] = (await pool.arrivals())["arrivals"]
    assert sum(tokens) == 7
    assert pool.metric("tandem_router_prompt_tokens_total") == 0
    task.cancel()
    writer.close()


async def test_a_body_shed_before_it_is_looked_into_counts_for_no_more_than_the_model_takes(
    pool: Pool,
) -> None:
    pool.configure(limits={"concurrent_requests": 1})
    pool.engines["p0"].script.hold = asyncio.Event()
    task = asyncio.create_task(pool.complete([5] * 7))
    await pool.engines["p0"].wait_seen(1)

    status, _ = await pool.complete("x" * 40_000)

    assert status == 429
    rows = (await pool.arrivals())["arrivals"]
    assert sum(sum(tokens) for _, _, tokens, _ in rows) == 7 + 2048
    task.cancel()


async def test_expect_100_continue_is_honoured(pool: Pool) -> None:
    status, _, _ = await pool.post({"model": "tiny", "prompt": "x"}, expect100=True)

    assert status == 200


STEERING = {
    "kv_transfer_params": {"do_remote_prefill": True, "remote_host": "10.0.0.66"},
    "ec_transfer_params": {"peer": "10.0.0.66"},
    "request_id": "somebody-elses",
    "priority": -100,
    "session_id": "s",
    "stream_interval": 1000,
    "watermarking": True,
    "chat_template": "{{ 10 ** 10 }}",
    "media_io_kwargs": {"video": {"num_frames": 10**6}},
    "mm_processor_kwargs": {"num_crops": 10**6},
    "vllm_xargs": {"kv_transfer_params": 1},
    "chat_template_kwargs": {"chat_template": "{{ 1 }}"},
    "temprature": 0.5,
}


@pytest.mark.parametrize("name", STEERING)
async def test_a_field_that_steers_an_engine_is_refused_by_its_name(pool: Pool, name: str) -> None:
    status, answer = await pool.complete(**{name: STEERING[name]})

    assert status == 400
    assert name in answer["error"]["message"]
    assert "leave it out" in answer["error"]["message"]
    assert answer["error"]["code"] == "unsupported_parameter"
    assert pool.engines["p0"].seen == pool.engines["d0"].seen == []


async def test_what_clients_send_that_no_engine_acts_on_is_dropped(pool: Pool) -> None:
    extras = {"user": "u", "metadata": {"a": "b"}, "store": False, "service_tier": "auto"}

    status, _ = await pool.complete(**extras, priority=None, kv_transfer_params=None)

    assert status == 200
    for name in ("p0", "d0"):
        body = pool.engines[name].seen[0].body
        assert not set(body) & {*extras, "priority"}


async def test_the_documented_extensions_reach_both_engines(pool: Pool) -> None:
    given = {"top_k": 5, "ignore_eos": True, "vllm_xargs": {"mine": 1}, "cache_salt": "s"}

    status, _ = await pool.complete(**given)

    assert status == 200
    for name in ("p0", "d0"):
        body = pool.engines[name].seen[0].body
        assert {key: body[key] for key in given} == given


async def test_every_field_that_passes_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "reference" / "router.md").read_text()

    for name in (*CHUNKED.passed, *CHUNKED.dropped, *REFUSED):
        assert f"`{name}`" in text, name


@pytest.mark.parametrize("status", [400, 402, 404, 418, 422, 451])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_fault_that_an_engine_finds_in_its_stream_is_the_clients(
    pool: Pool, status: int, begun: bool, stream: bool
) -> None:
    script = pool.engines["d0"].script
    script.error_event_after = 1 if begun else 0
    script.error = {"error": {"message": "too many logprobs", "type": "Bad", "code": status}}
    body = {"model": "tiny", "prompt": "x", "logprobs": 19, "stream": stream}

    async with pool.client.post(pool.url + "/v1/completions", json=body) as response:
        text = await response.text()

    assert "too many logprobs" in text
    assert response.status == (200 if begun and stream else status)
    await pool.idle()
    assert len(pool.engines["d0"].seen) == 1
    assert pool.metric("tandem_router_requests_total", outcome="refused") == 1
    assert pool.metric("tandem_router_requests_total", outcome="failed") == 0
    told = await pool.arrivals()
    assert told["arrivals"] == told["finished"] == []


@pytest.mark.parametrize("code", [500, 429, "400", None])
async def test_another_error_in_a_stream_is_the_engines(pool: Pool, code: Any) -> None:
    script = pool.engines["d0"].script
    script.error_event_after = 0
    script.error = {"error": {"message": "scripted", "code": code}}

    status, _ = await pool.complete()

    assert status == 502
    assert len(pool.engines["d0"].seen) == 2


@pytest.mark.parametrize("status", [402, 405, 408, 410, 418, 451])
async def test_every_status_of_the_4xx_is_passed_on_once(pool: Pool, status: int) -> None:
    pool.engines["d0"].script.statuses = [status]

    got, _ = await pool.complete()

    assert got == status
    assert len(pool.engines["d0"].seen) == 1
    assert pool.metric("tandem_router_requests_total", outcome="refused") == 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "GZIP", "identity, gzip"])
async def test_a_packed_body_is_refused_and_never_unpacked(pool: Pool, encoding: str) -> None:
    packed = gzip.compress(b" " * 50_000_000)

    status, answer, _ = await pool.post(packed, headers={"Content-Encoding": encoding})

    assert (status, answer["error"]["code"]) == (415, "unsupported_encoding")
    assert "without compression" in answer["error"]["message"]


async def test_each_tenant_gets_a_salt_that_does_not_reveal_the_tenant(pool: Pool) -> None:
    pool.configure(cache_salt_header="Authorization")
    body = {"model": "tiny", "prompt": "x"}
    salts = []
    for tenant, own in (
        ("Bearer a", None),
        ("Bearer b", None),
        ("Bearer a", None),
        ("Bearer a", "x"),
    ):
        given = body if own is None else body | {"cache_salt": own}
        await pool.post(given, headers={"Authorization": tenant})
        legs = [pool.engines[name].seen[-1].body["cache_salt"] for name in ("p0", "d0")]
        assert legs[0] == legs[1]
        salts.append(legs[0])
    await pool.post(body)

    one, other, again, session = salts
    assert one == again
    assert len({one, other, session, pool.engines["d0"].seen[-1].body["cache_salt"]}) == 4
    assert not any("Bearer" in salt for salt in salts)
