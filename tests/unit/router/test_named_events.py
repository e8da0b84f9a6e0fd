"""`/v1/responses` and `/v1/messages`: through both pods, measured, refused in their shape."""

import json
from typing import Any

import pytest

from tandem_engine.router.openai.call import parse_call
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.messages_stream import MessagesMeaning
from tandem_engine.router.openai.named_events import NamedCount
from tandem_engine.router.openai.prefixes import PrefixMarks
from tandem_engine.router.openai.sse import SHAPE_ERRORS
from tandem_engine.router.settings_in_force import parse_settings
from tests.unit.router.fake_named import MESSAGES, PATHS, RESPONSES
from tests.unit.router.pool import Pool, settings_document

SETTINGS = parse_settings(json.dumps(settings_document()))

ASKED: dict[str, dict[str, Any]] = {
    RESPONSES: {"model": "tiny", "input": "one two three", "max_output_tokens": 9},
    MESSAGES: {
        "model": "tiny",
        "messages": [{"role": "user", "content": "one two three"}],
        "max_tokens": 9,
    },
}
both = pytest.mark.parametrize("path", PATHS)


async def streamed(pool: Pool, path: str, **more: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a stream: the name of each, and its document."""
    body = ASKED[path] | {"stream": True} | more
    async with pool.client.post(pool.url + path, json=body) as response:
        assert response.status == 200, await response.text()
        text = await response.text()
    frames = [frame.split("\n") for frame in text.split("\n\n") if frame]
    return [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for name, data in frames
    ]


def text_of(path: str, answer: dict[str, Any]) -> str:
    content = answer["content"] if path == MESSAGES else answer["output"][0]["content"]
    text: str = content[0]["text"]
    return text


@both
async def test_every_event_has_its_name_and_no_other_api_ends_it(pool: Pool, path: str) -> None:
    events = await streamed(pool, path)

    assert all(name == document["type"] for name, document in events)
    assert [name for name, _ in events if name.endswith("delta")][:2] == (
        ["response.output_text.delta"] * 2 if path == RESPONSES else ["content_block_delta"] * 2
    )
    assert events[-1][0] == ("response.completed" if path == RESPONSES else "message_stop")


@both
async def test_a_request_goes_through_prefill_and_decode(pool: Pool, path: str) -> None:
    await pool.post(ASKED[path], path)

    prefill, decode = pool.engines["p0"].seen[0], pool.engines["d0"].seen[0]
    bound = "max_output_tokens" if path == RESPONSES else "max_tokens"
    assert (prefill.path, decode.path) == (path, path)
    assert (prefill.body[bound], decode.body[bound]) == (1, 9)
    assert prefill.body["stream"] is False
    assert prefill.body["kv_transfer_params"]["do_remote_decode"] is True
    assert decode.body["stream"] is True
    assert decode.body["kv_transfer_params"]["remote_engine_id"] == "p0"
    assert pool.metric("tandem_router_decode_only_total", reason="no_kv_params") is None


@both
async def test_an_answer_not_streamed_is_the_whole_one(pool: Pool, path: str) -> None:
    status, answer, _ = await pool.post(ASKED[path], path)

    assert status == 200
    assert text_of(path, answer) == " t0 t1 t2 t3"
    assert answer["usage"]["output_tokens"] == 4
    if path == MESSAGES:
        assert answer["stop_reason"] == "end_turn"
        assert "stop_sequence" not in answer


@both
async def test_tokens_are_counted_by_the_usage_at_the_end(pool: Pool, path: str) -> None:
    pool.engines["d0"].script.usage_tokens = 11
    pool.engines["p0"].script.cached_tokens = 2

    await streamed(pool, path)

    prompt = 3 if path == RESPONSES else 6
    assert pool.metric("tandem_router_output_tokens_total") == 11
    assert pool.metric("tandem_router_prompt_tokens_total") == prompt
    assert pool.metric("tandem_router_cached_tokens_total") == 2


@both
async def test_an_answer_that_shows_no_token_has_its_first_at_its_end(
    pool: Pool, path: str
) -> None:
    script = pool.engines["d0"].script
    script.tokens, script.usage_tokens = 0, 5

    await streamed(pool, path)

    assert pool.metric("tandem_router_ttft_seconds_count") == 1
    assert pool.metric("tandem_router_output_tokens_total") == 5


@both
async def test_it_is_judged_as_any_request(pool: Pool, path: str) -> None:
    await streamed(pool, path)

    assert pool.metric("tandem_router_requests_total", outcome="good") == 1
    assert pool.metric("tandem_router_ttft_seconds_count") == 1
    assert pool.metric("tandem_router_tpot_seconds_count") == 1


@both
async def test_an_engine_that_ends_before_the_first_token_costs_no_stream(
    pool: Pool, path: str
) -> None:
    pool.engines["d0"].script.cut_after = 0
    await pool.add("d1")
    pool.engines["d1"].script.tokens = 2

    events = await streamed(pool, path)
    again = await streamed(pool, path)

    started = "response.created" if path == RESPONSES else "message_start"
    assert [[name for name, _ in each].count(started) for each in (events, again)] == [1, 1]
    assert pool.metric("tandem_router_requests_total", outcome="good") == 2


@both
async def test_a_stream_that_breaks_ends_with_an_error_event(pool: Pool, path: str) -> None:
    pool.engines["d0"].script.cut_after = 2

    events = await streamed(pool, path)

    name, error = events[-1]
    assert name == "error"
    if path == RESPONSES:
        assert error["code"] == "upstream_error"
        assert error["sequence_number"] == len(events) - 1
    else:
        assert error["error"]["type"] == "api_error"


@both
async def test_an_answer_that_an_engine_gave_up_is_no_answer(pool: Pool, path: str) -> None:
    pool.engines["d0"].script.abort = True

    status, _, _ = await pool.post(ASKED[path], path)
    events = await streamed(pool, path)

    assert status == 502
    assert events[-1][0] == "error"


@both
async def test_an_error_of_the_engine_without_a_name_is_told_as_any(pool: Pool, path: str) -> None:
    pool.engines["d0"].script.error_event_after = 1

    events = await streamed(pool, path)

    assert events[-1][0] == "error"
    assert pool.metric("tandem_router_requests_total", outcome="failed") == 1


async def test_an_error_event_of_the_engine_is_told_in_the_apis_shape(pool: Pool) -> None:
    script = pool.engines["d0"].script
    script.error_event_after = 1
    script.error = {"type": "error", "error": {"type": "internal_error", "message": "secret"}}

    events = await streamed(pool, MESSAGES)

    assert events[-1][1]["error"]["type"] == "api_error"
    assert "secret" not in json.dumps(events)


@both
@pytest.mark.parametrize("choice", ["required", "any", "tool"])
async def test_a_forced_tool_is_decoded_alone(pool: Pool, path: str, choice: str) -> None:
    choices: Any = choice if path == RESPONSES else {"type": choice}

    await pool.post(ASKED[path] | {"tool_choice": choices}, path)

    assert pool.engines["p0"].seen == []
    assert pool.metric("tandem_router_decode_only_total", reason="unsupported") == 1


async def test_a_tool_that_may_be_called_needs_no_decode_alone(pool: Pool) -> None:
    await pool.post(ASKED[MESSAGES] | {"tool_choice": {"type": "auto"}}, MESSAGES)

    assert len(pool.engines["p0"].seen) == 1


@both
@pytest.mark.parametrize(
    "field", ["kv_transfer_params", "request_id", "priority", "nonsense", "mm_processor_kwargs"]
)
async def test_what_steers_an_engine_is_refused(pool: Pool, path: str, field: str) -> None:
    status, answer, _ = await pool.post(ASKED[path] | {field: {"a": 1}}, path)

    assert status == 400
    assert field in answer["error"]["message"]
    assert pool.engines["d0"].seen == []


@pytest.mark.parametrize("field", ["background", "previous_response_id", "conversation", "prompt"])
async def test_what_needs_a_kept_answer_is_refused(pool: Pool, field: str) -> None:
    status, answer, _ = await pool.post(ASKED[RESPONSES] | {field: "resp_1"}, RESPONSES)

    assert status == 400
    assert answer["error"]["param"] == field


async def test_engines_keep_no_response_whatever_the_client_says(pool: Pool) -> None:
    await pool.post(ASKED[RESPONSES] | {"store": True}, RESPONSES)

    for name in ("p0", "d0"):
        assert pool.engines[name].seen[0].body["store"] is False


async def test_a_tool_that_an_engine_would_call_is_refused(pool: Pool) -> None:
    tools = [{"type": "function", "name": "f"}, {"type": "mcp", "server_url": "http://inside"}]

    status, answer, _ = await pool.post(ASKED[RESPONSES] | {"tools": tools}, RESPONSES)

    assert status == 400
    assert answer["error"]["param"] == "tools[1].type"


async def test_a_response_that_was_answered_cannot_be_had_again(pool: Pool) -> None:
    async with pool.client.get(f"{pool.url}{RESPONSES}/resp_1") as response:
        assert response.status == 404
        assert "again in input" in (await response.json())["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"model": "nobody"}, 404, "not_found_error"),
        ({"messages": []}, 400, "invalid_request_error"),
        ({"max_tokens": "many"}, 400, "invalid_request_error"),
    ],
)
async def test_anthropics_clients_get_errors_in_their_shape(
    pool: Pool, body: dict[str, Any], status: int, kind: str
) -> None:
    answered, answer, headers = await pool.post(ASKED[MESSAGES] | body, MESSAGES)

    assert answered == status
    assert answer["type"] == "error"
    assert answer["error"]["type"] == kind
    assert answer["request_id"] == headers["X-Request-Id"]


async def test_no_engine_is_an_overload_to_anthropics_clients(bare_pool: Pool) -> None:
    bare_pool.configure(timeouts={"first_token_s": 0.2})

    status, answer, headers = await bare_pool.post(ASKED[MESSAGES], MESSAGES)

    assert status == 503
    assert answer["error"]["type"] == "overloaded_error"
    assert "Retry-After" in headers


async def test_an_engines_own_name_for_a_fault_stays(pool: Pool) -> None:
    script = pool.engines["p0"].script
    script.statuses = [400]
    script.error = {"type": "error", "error": {"type": "BadRequestError", "message": "too long"}}

    status, answer, _ = await pool.post(ASKED[MESSAGES], MESSAGES)

    assert status == 400
    assert answer["error"] == {"type": "BadRequestError", "message": "too long"}


@both
def test_an_image_counts_as_one_medium_whatever_its_bytes(path: str) -> None:
    image = (
        {"type": "input_image", "image_url": "data:" + "A" * 50_000}
        if path == RESPONSES
        else {"type": "image", "source": {"type": "base64", "data": "A" * 50_000}}
    )
    said = [{"role": "user", "content": [image, {"type": "text", "text": "what is it"}]}]
    body = ASKED[path] | {"input" if path == RESPONSES else "messages": said}
    kind = EndpointKind(path.rpartition("/")[2])

    prompt = parse_call(kind, json.dumps(body).encode(), SETTINGS).prompt

    assert prompt.media == 1
    assert prompt.size < 100


@both
def test_prompts_that_begin_alike_have_the_same_marks(path: str) -> None:
    kind, marks = EndpointKind(path.rpartition("/")[2]), PrefixMarks("key")
    first, *others = (
        json.dumps(
            ASKED[path]
            | ({"instructions": who} if path == RESPONSES else {"system": who})
            | {"input" if path == RESPONSES else "messages": said}
        ).encode()
        for who, said in (
            ("a" * 3000, [{"role": "user", "content": "one"}]),
            ("a" * 3000, [{"role": "user", "content": "two"}]),
            ("b" * 3000, [{"role": "user", "content": "one"}]),
        )
    )

    alike, unlike = (parse_call(kind, raw, SETTINGS, prefixes=marks).marks for raw in others)

    assert parse_call(kind, first, SETTINGS, prefixes=marks).marks == alike
    assert alike
    assert alike[:8] != unlike[:8]


@both
async def test_a_count_that_no_number_can_hold_is_the_engines_fault(pool: Pool, path: str) -> None:
    pool.engines["d0"].script.usage_tokens = 10**400

    status, _, _ = await pool.post(ASKED[path], path)
    events = await streamed(pool, path)

    assert (status, events[-1][0]) == (502, "error")
    assert pool.metric("tandem_router_requests_total", outcome="failed") == 2


def test_a_ping_waits_for_the_first_token_and_for_nothing_after_it() -> None:
    count = NamedCount(MessagesMeaning())
    ping, text = b'{"type": "ping"}', b'{"type": "content_block_delta", "delta": {"text": "a"}}'

    assert count.read(ping).payload is None
    assert (count.read(text).payload or b"").startswith(b"event: ping\n")
    assert count.read(ping).payload == b"event: ping\ndata: " + ping + b"\n\n"


def test_a_stream_that_begins_without_end_is_given_up() -> None:
    count = NamedCount(MessagesMeaning())
    ping = json.dumps({"type": "ping", "more": "x" * 2**20}).encode()

    with pytest.raises(SHAPE_ERRORS):
        list(map(count.read, [ping] * 64))
