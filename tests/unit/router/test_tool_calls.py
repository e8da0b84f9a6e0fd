"""Calls of tools in answers not streamed: whatever the model wrote is no fault of the engine."""

import json
from typing import Any

import pytest

from tandem_engine.router.openai.assembly import Assembly
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.messages_stream import MessagesAssembly
from tests.unit.router.fake_named import MESSAGES
from tests.unit.router.pool import Pool

ASKED = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "what does it do in Rome?"}],
    "max_tokens": 9,
    "tools": [{"name": "weather", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "auto"},
}
CUT = ["", "{", '{"city": "Ro', '{"a": "long te']
NO_OBJECT = ["[1]", "3", "null", '{"a": 1} {', "[" * 100_000, '{"a":' * 900 + "1" + "}" * 900]
HUGE = '{"a": ' + "1" * 5000 + "}"


def called(*arguments: str) -> list[dict[str, Any]]:
    """Return the events of a call, its arguments in these pieces."""
    block = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {}}
    return [
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": piece},
            }
            for piece in arguments
        ),
    ]


def assembled(*arguments: str) -> Any:
    assembly = MessagesAssembly()
    for event in called(*arguments):
        assembly.add(event)
    return json.loads(json.dumps(assembly.answer()))["content"][0]["input"]


def test_arguments_in_pieces_are_joined() -> None:
    assert assembled('{"city": ', '"Ro', 'me"}') == {"city": "Rome"}


@pytest.mark.parametrize("arguments", [*CUT, *NO_OBJECT, HUGE])
def test_arguments_that_are_no_whole_object_are_none(arguments: str) -> None:
    assert assembled(arguments) == {}


def test_what_json_has_not_is_null() -> None:
    assert assembled('{"a": NaN, "b": [-Infinity]}') == {"a": None, "b": [None]}


@pytest.mark.parametrize("arguments", CUT)
async def test_a_call_that_its_bound_cut_is_answered_and_the_pod_is_well(
    pool: Pool, arguments: str
) -> None:
    pool.engines["d0"].script.named_parts = called(arguments)
    pool.engines["d0"].script.stop_reason = "max_tokens"

    for _ in range(6):
        status, answer, _ = await pool.post(ASKED, MESSAGES)
        assert (status, answer["stop_reason"]) == (200, "max_tokens")
        assert answer["content"][0] == {
            "type": "tool_use",
            "id": "call_1",
            "name": "weather",
            "input": {},
        }

    assert pool.router.fleet.ejection.sick() == []
    assert pool.metric("tandem_router_requests_total", outcome="good") == 6


def test_a_model_may_call_as_often_as_it_likes() -> None:
    assembly, messages = Assembly(EndpointKind.CHAT), MessagesAssembly()
    for index in range(1500):
        call = {"index": index, "id": f"c{index}", "function": {"name": "f", "arguments": "{"}}
        assembly.add({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
        for event in called("{}"):
            messages.add(event | {"index": index})

    calls = assembly.answer()["choices"][0]["message"]["tool_calls"]
    assert [call["id"] for call in calls] == [f"c{index}" for index in range(1500)]
    assert len(messages.answer()["content"]) == 1500


def test_an_index_out_of_all_order_is_the_engines_fault() -> None:
    call = {"index": 10**9, "id": "c", "function": {"name": "f", "arguments": "{}"}}

    with pytest.raises(ValueError, match="index"):
        Assembly(EndpointKind.CHAT).add({"choices": [{"delta": {"tool_calls": [call]}}]})
