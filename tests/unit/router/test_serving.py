"""What a client gets when everything works."""

from typing import Any

from pool import Pool


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


async def test_chat_answers_have_a_message(pool: Pool) -> None:
    body: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}

    status, answer, _ = await pool.post(body, "/v1/chat/completions")

    assert status == 200
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == " t0 t1 t2 t3"
    assert answer["choices"][0]["message"]["role"] == "assistant"
