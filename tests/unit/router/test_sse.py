"""Reading the engine's stream: cut anywhere, counted in tokens, usage hidden without a trace."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_engine.router.openai.assembly import Assembly
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.sse import Events, TokenCount


def dumps(document: Any, *, compact: bool = True) -> bytes:
    return json.dumps(document, separators=(",", ":") if compact else (", ", ": ")).encode()


def chunk(text: str, **fields: Any) -> dict[str, Any]:
    return {"id": "x", "choices": [{"index": 0, "text": text, "finish_reason": None}], **fields}


def usage(tokens: int) -> dict[str, Any]:
    return {
        "prompt_tokens": 7,
        "total_tokens": 7 + tokens,
        "completion_tokens": tokens,
        "prompt_tokens_details": {"cached_tokens": 3},
    }


def counter(**options: Any) -> TokenCount:
    defaults = {"choices": 1, "include_usage": False, "continuous_usage": False}
    return TokenCount(**{**defaults, **options})


@given(
    payloads=st.lists(st.text(alphabet='ab{}": é', min_size=1, max_size=20), max_size=8),
    cuts=st.lists(st.integers(0, 400), max_size=10),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_events_are_the_same_however_the_bytes_are_cut(
    payloads: list[str], cuts: list[int], newline: str
) -> None:
    wanted = [payload.strip().encode() for payload in payloads if payload.strip()]
    data = b"".join(b"data: " + one + 2 * newline.encode() for one in wanted)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    events = Events()

    got = [
        payload
        for start, end in itertools.pairwise(edges)
        for payload in events.feed(data[start:end])
    ]

    assert got == wanted


def test_comments_and_other_fields_are_no_events() -> None:
    assert list(Events().feed(b": ping\n\nevent: x\ndata: 1\n\n")) == [b"1"]


@given(text=st.text(max_size=60), compact=st.booleans())
def test_usage_is_cut_out_and_nothing_else_changes(text: str, compact: bool) -> None:
    document = chunk(text + ',"usage":{"completion_tokens":99}')
    count = counter()

    read = count.read(dumps({**document, "usage": usage(1)}, compact=compact))

    assert read.payload is not None
    assert json.loads(read.payload) == document
    assert read.tokens
    assert (count.output_tokens, count.prompt_tokens, count.cached_tokens) == (1, 7, 3)


def test_a_chunk_of_several_tokens_counts_as_several() -> None:
    count = counter()

    count.read(dumps({**chunk("abc"), "usage": usage(3)}))
    count.read(dumps({**chunk("de"), "usage": usage(5)}))

    assert count.output_tokens == 5


def test_a_role_only_chunk_is_no_token_but_a_token_without_text_is_one() -> None:
    role = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
    count = counter()

    assert not count.read(dumps({**role, "id": "x", "usage": usage(0)})).tokens
    assert count.read(dumps({**chunk(""), "usage": usage(1)})).tokens


@pytest.mark.parametrize(
    "delta",
    [{"content": "a"}, {"reasoning": "a"}, {"tool_calls": [{"index": 0}]}],
)
def test_an_engine_without_usage_on_chunks_is_counted_by_content(delta: dict[str, Any]) -> None:
    count = counter()

    assert not count.read(b'{"choices":[{"index":0,"delta":{"role":"assistant"}}]}').tokens
    assert count.read(dumps({"choices": [{"index": 0, "delta": delta}]})).tokens
    assert count.output_tokens == 1


def test_the_report_at_the_end_has_the_last_word() -> None:
    count = counter()
    count.read(dumps(chunk("several tokens in one")))

    read = count.read(dumps({"choices": [], "usage": usage(4)}))

    assert read.payload is None
    assert count.output_tokens == count.longest_tokens == 4


def test_several_choices_are_counted_together() -> None:
    count = counter(choices=2)
    for index, tokens in ((0, 1), (1, 1), (0, 2), (1, 3)):
        document = {"choices": [{"index": index, "text": "a"}], "usage": usage(tokens)}
        assert count.read(dumps(document)).tokens

    assert (count.output_tokens, count.longest_tokens) == (5, 3)


def test_tool_calls_are_assembled_piece_by_piece() -> None:
    assembly = Assembly(EndpointKind.CHAT)
    pieces = [
        {"role": "assistant", "content": None},
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]},
        {"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "g", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
    ]
    for piece in pieces:
        assembly.add({"id": "x", "choices": [{"index": 0, "delta": piece}]})
    assembly.add({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})

    choice = assembly.answer()["choices"][0]

    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]


@pytest.mark.parametrize("asked", [True, False])
def test_reasoning_survives_assembly_and_token_ids_do_if_asked_for(asked: bool) -> None:
    assembly = Assembly(EndpointKind.CHAT, token_ids=asked)
    for number in (1, 2):
        assembly.add(
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {"reasoning": f"r{number}"},
                        "token_ids": [number],
                        "logprobs": {"content": [{"token": f"r{number}"}]},
                    }
                ]
            }
        )

    choice = assembly.answer()["choices"][0]

    assert choice["message"]["reasoning"] == "r1r2"
    assert choice.get("token_ids") == ([1, 2] if asked else None)
    assert [entry["token"] for entry in choice["logprobs"]["content"]] == ["r1", "r2"]
