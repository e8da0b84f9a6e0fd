"""The answers to a client when everything works."""

import asyncio
import json
from typing import Any

from tandem_engine.router.openai.call import parse_call
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.prefixes import PrefixMarks
from tandem_engine.router.settings_in_force import parse_settings
from tests.unit.router.pool import Pool, settings_document, until


async def test_streams_the_decode_pods_tokens_and_ends_with_done(pool: Pool) -> None:
    events = await pool.stream()

    assert [event["choices"][0]["text"] for event in events[:-1]] == [" t0", " t1", " t2", " t3"]
    assert events[-1] == "[DONE]"


async def test_prefill_is_asked_for_one_token_and_decode_gets_its_kv_parameters_verbatim(
    pool: Pool,
) -> None:
    await pool.stream(max_tokens=50, min_tokens=5, logprobs=1)

    prefill, decode = pool.engines["p0"].seen[0], pool.engines["d0"].seen[0]
    assert prefill.body["max_tokens"] == 1
    assert prefill.body["stream"] is False
    assert "min_tokens" not in prefill.body
    assert prefill.body["kv_transfer_params"]["do_remote_decode"] is True
    assert decode.body["max_tokens"] == 50
    assert decode.body["min_tokens"] == 5
    assert decode.body["kv_transfer_params"] == {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_engine_id": "p0",
        "remote_block_ids": [[1, 2, 3]],
        "remote_host": "127.0.0.1",
        "remote_port": 5600,
        "tp_size": 1,
    }


async def test_a_request_not_streamed_is_assembled_from_the_stream(pool: Pool) -> None:
    status, answer = await pool.complete(logprobs=1)

    assert status == 200
    choice = answer["choices"][0]
    assert choice["text"] == " t0 t1 t2 t3"
    assert choice["finish_reason"] == "length"
    assert choice["logprobs"]["token_logprobs"] == [-0.5] * 4
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 7, "completion_tokens": 4}
    assert pool.engines["d0"].seen[0].body["stream"] is True


async def test_a_whole_answer_is_not_held_back_for_the_engines_end(pool: Pool) -> None:
    pool.engines["d0"].script.linger_s = 60.0

    async with asyncio.timeout(30):
        status, _ = await pool.complete()

    assert status == 200


async def test_chat_answers_have_a_message(pool: Pool) -> None:
    body: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}

    status, answer, _ = await pool.post(body, "/v1/chat/completions")

    assert status == 200
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == " t0 t1 t2 t3"
    assert answer["choices"][0]["message"]["role"] == "assistant"


async def test_the_role_chunk_of_a_chat_stream_reaches_the_client(pool: Pool) -> None:
    events = await pool.stream(path="/v1/chat/completions")

    assert events[0]["choices"][0]["delta"]["role"] == "assistant"
    assert [event["choices"][0]["delta"]["content"] for event in events[1:-1]] == [
        " t0",
        " t1",
        " t2",
        " t3",
    ]


async def test_usage_is_hidden_from_a_client_that_did_not_ask(pool: Pool) -> None:
    events = await pool.stream()

    assert len(events) == 5
    assert all("usage" not in event for event in events[:-1])


async def test_usage_comes_once_at_the_end_for_a_client_that_asked(pool: Pool) -> None:
    events = await pool.stream(stream_options={"include_usage": True})

    assert all("usage" not in event for event in events[:-2])
    assert events[-2]["usage"]["completion_tokens"] == 4
    assert events[-2]["choices"] == []


async def test_usage_comes_on_each_chunk_for_a_client_that_asked_for_that(pool: Pool) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}

    events = await pool.stream(stream_options=options)

    assert [event["usage"]["completion_tokens"] for event in events[:-1]] == [1, 2, 3, 4, 4]


async def test_several_choices_are_assembled_each_on_its_own(pool: Pool) -> None:
    status, answer = await pool.complete(n=3)

    assert status == 200
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert {choice["text"] for choice in answer["choices"]} == {" t0 t1 t2 t3"}
    assert answer["usage"]["completion_tokens"] == 12


async def test_requests_whose_kv_cannot_move_go_to_decode_alone(pool: Pool) -> None:
    for fields in ({"n": 2}, {"echo": True, "logprobs": 1}, {"max_tokens": 0}):
        status, _ = await pool.complete(**fields)
        assert status == 200
    status, _ = await pool.complete(prompt=["one text", "another text"])
    assert status == 200

    assert pool.engines["p0"].seen == []
    assert "kv_transfer_params" not in pool.engines["d0"].seen[0].body
    assert pool.metric("tandem_router_decode_only_total", reason="unsupported") == 4


async def test_one_request_id_names_both_legs_and_the_answer(pool: Pool) -> None:
    headers = {"X-Request-Id": "audit-17", "Authorization": "Bearer secret", "X-Other": "no"}

    _, _, answered = await pool.post({"model": "tiny", "prompt": "hello"}, headers=headers)

    assert answered["X-Request-Id"] == "audit-17"
    for name in ("p0", "d0"):
        seen = pool.engines[name].seen[0].headers
        assert seen["X-Request-Id"] == "audit-17"
        assert "Authorization" not in seen
        assert "X-Other" not in seen


async def test_a_request_without_id_is_given_one(pool: Pool) -> None:
    _, _, answered = await pool.post({"model": "tiny", "prompt": "hello"})

    assert len(answered["X-Request-Id"]) == 32
    assert pool.engines["d0"].seen[0].headers["X-Request-Id"] == answered["X-Request-Id"]


async def test_models_are_listed_with_their_longest_context(pool: Pool) -> None:
    async with pool.client.get(pool.url + "/v1/models") as response:
        listing = await response.json()

    assert [(card["id"], card["max_model_len"]) for card in listing["data"]] == [("tiny", 2048)]


async def test_every_name_of_the_model_is_listed_and_served_under_the_engines_own(
    pool: Pool,
) -> None:
    pool.configure(models=["tiny", "acme/tiny-1b"])

    async with pool.client.get(pool.url + "/v1/models") as response:
        listing = await response.json()
    status, answer = await pool.complete(model="acme/tiny-1b")

    assert [card["id"] for card in listing["data"]] == ["tiny", "acme/tiny-1b"]
    async with pool.client.get(pool.url + "/v1/models/acme/tiny-1b") as response:
        assert (await response.json())["id"] == "acme/tiny-1b"
    # As vLLM answers that is started with both names.
    assert (status, answer["model"]) == (200, "tiny")
    assert [pool.engines[name].seen[0].body["model"] for name in ("p0", "d0")] == ["tiny"] * 2


async def test_prompts_under_two_names_of_a_model_begin_alike() -> None:
    settings = parse_settings(json.dumps(settings_document(models=["tiny", "other"])))
    marks = PrefixMarks("key")

    def marked(model: str) -> bytes:
        body = json.dumps({"model": model, "prompt": "x" * 5000}).encode()
        return parse_call(EndpointKind.COMPLETIONS, body, settings, prefixes=marks).marks

    assert marked("tiny") == marked("other") != b""


async def test_a_router_is_ready_without_any_decode_pod(pool: Pool) -> None:
    # Without a ready router its Service has no address, and resets each connection.
    pool.show("d0", ready=False)

    assert await pool.probe("/ready") == await pool.probe("/accepting") == 200


async def test_a_router_is_ready_once_it_has_settings_and_a_listing(bare_pool: Pool) -> None:
    settings, bare_pool.router.settings.current = bare_pool.router.settings.current, None
    bare_pool.router.fleet.listed = False
    seen = [await bare_pool.probe("/ready")]
    bare_pool.router.settings.current = settings
    seen.append(await bare_pool.probe("/ready"))
    bare_pool.router.fleet.replace(())
    seen.append(await bare_pool.probe("/ready"))

    assert seen == [503, 503, 200]
    assert await bare_pool.probe("/health") == 200


async def test_a_request_without_a_decode_pod_is_held_until_there_is_one(
    bare_pool: Pool,
) -> None:
    held = [asyncio.create_task(bare_pool.complete()) for _ in range(28)]
    await until(lambda: bare_pool.router.clients.requests == 28)
    await bare_pool.add("p0")
    await bare_pool.add("d0")

    assert [status for status, _ in await asyncio.gather(*held)] == [200] * 28


async def test_or_is_told_to_come_back_later(bare_pool: Pool) -> None:
    bare_pool.configure(timeouts={"first_token_s": 0.1})
    status, answer, headers = await bare_pool.post({"model": "tiny", "prompt": "x"})

    assert (status, answer["error"]["code"]) == (503, "no_decode_pod")
    assert int(headers["Retry-After"]) > 0


async def test_prefill_and_decode_of_different_revisions_are_never_paired(
    bare_pool: Pool,
) -> None:
    for name, revision in (("p-old", "old"), ("p-new", "new"), ("d-old", "old"), ("d-new", "new")):
        await bare_pool.add(name, revision=revision)

    for _ in range(12):
        await bare_pool.stream()

    for revision in ("old", "new"):
        for seen in bare_pool.engines[f"d-{revision}"].seen:
            assert seen.body["kv_transfer_params"]["remote_engine_id"] == f"p-{revision}"


async def test_prefill_pods_without_a_decode_pod_of_their_revision_are_left_out(
    bare_pool: Pool,
) -> None:
    await bare_pool.add("p-new", revision="new")
    await bare_pool.add("d-old", revision="old")

    await bare_pool.stream()

    assert bare_pool.engines["p-new"].seen == []
    assert "kv_transfer_params" not in bare_pool.engines["d-old"].seen[0].body
    assert bare_pool.metric("tandem_router_decode_only_total", reason="no_pair") == 1
