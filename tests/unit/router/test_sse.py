"""Reading the engine's stream: cut anywhere, counted in tokens, usage hidden without a trace."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_engine.router.openai.assembly import Assembly
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.sse import SHAPE_ERRORS, Events, TokenCount, prompt_usage


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


def test_an_event_without_end_is_given_up() -> None:
    events, part = Events(), b"x" * 2**20

    assert list(events.feed(b"data: 1\n\ndata: ")) == [b"1"]
    with pytest.raises(SHAPE_ERRORS):
        list(itertools.chain.from_iterable(map(events.feed, [part] * 64)))


def test_comments_and_other_fields_are_no_events() -> None:
    assert list(Events().feed(b": ping\n\nevent: x\ndata: 1\n\n")) == [b"1"]


def test_an_event_of_several_lines_is_passed_on_as_one() -> None:
    assert list(Events().feed(b'data: {"a":\ndata: "b"}\n\n')) == [b'{"a": "b"}']


@given(text=st.text(max_size=60), compact=st.booleans())
def test_usage_is_cut_out_and_nothing_else_changes(text: str, compact: bool) -> None:
    document = chunk(text + ',"usage":{"completion_tokens":99}')
    count = counter()

    read = count.read(dumps({**document, "usage": usage(1)}, compact=compact))

    assert read.payload is not None
    assert json.loads(read.payload) == document
    assert read.tokens
    assert (count.output_tokens, count.prompt_tokens, count.cached_tokens) == (1, 7, 3)


# What a model or a client may put where it could be taken for a part of the event.
TEXTS = st.text(max_size=8) | st.sampled_from(
    [
        ',"usage":{"completion_tokens":99}',
        '"finish_reason":"abort"',
        '"choices":[]',
        '{"error":',
        "[DONE]",
        "data: x",
        "\n\n",
        "\\",
        '"',
    ]
)


@st.composite
def events_of_a_stream(draw: st.DrawFn) -> bytes:
    """Draw events as vLLM writes them, and some that differ from that in some way."""
    choice: dict[str, Any] = {"index": draw(st.sampled_from([0, 0, 0, 1]))}
    generated = draw(st.sampled_from(["text", "text", "content", "reasoning", "role", "both"]))
    if generated == "text":
        choice["text"] = draw(TEXTS)
    elif generated == "both":
        choice["delta"] = {"content": draw(TEXTS), "tool_calls": []}
    else:
        choice["delta"] = {generated: draw(TEXTS)}
    choice["logprobs"] = draw(st.sampled_from([None, None, None, {"tokens": ["a"]}]))
    choice["finish_reason"] = draw(st.sampled_from([None, None, None, "stop", "abort"]))
    for name in draw(st.lists(st.sampled_from(["stop_reason", "token_ids"]), unique=True)):
        choice[name] = draw(st.sampled_from([None, None, [7]]))
    tokens = draw(st.integers(0, 40) | st.sampled_from([-1, 10**9, 1.5, None]))
    told: dict[str, Any] = {"prompt_tokens": 7, "total_tokens": 7, "completion_tokens": tokens}
    told |= draw(
        st.sampled_from(
            [{}, {}, {"prompt_tokens_details": None}, {"prompt_tokens_details": {"a": 1}}]
        )
    )
    document = {
        "id": draw(TEXTS),
        "object": "text_completion",
        "created": 1,
        "model": draw(TEXTS),
        "choices": draw(st.sampled_from([[choice], [choice], [choice], [], [choice, choice]])),
        "usage": draw(st.sampled_from([told, told, told, None])),
        **draw(st.sampled_from([{}, {}, {}, {"system_fingerprint": "x"}])),
    }
    if draw(st.integers(0, 9)) == 0:
        document = {"error": {"message": draw(TEXTS)}}
    compact, ascii_only = draw(st.sampled_from([True, True, False])), draw(st.booleans())
    separators = (",", ":") if compact else (", ", ": ")
    text = json.dumps(document, separators=separators, ensure_ascii=ascii_only)
    end = draw(st.sampled_from(["\n\n", "\n\n", "\n\n", "\r\n\r\n", "\n"]))
    return f"data: {text}{end}".encode(errors="surrogatepass")


@st.composite
def usual_events(draw: st.DrawFn) -> bytes:
    """Draw events that differ in nothing but their texts and counts: few of the others are such."""
    text = draw(TEXTS)
    said = draw(st.sampled_from([{"text": text}, {"delta": {"content": text}}]))
    tokens = draw(st.integers(0, 40))
    document = {
        "id": "x",
        "object": "text_completion",
        "created": 1,
        "model": "tiny",
        "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": None}],
        "usage": {"prompt_tokens": 7, "total_tokens": 7, "completion_tokens": tokens},
    }
    return b"data: %b\n\n" % dumps(document)


@given(
    before=st.integers(0, 20),
    streamed=st.lists(events_of_a_stream() | usual_events(), min_size=1, max_size=4),
    continuous=st.booleans(),
    choices=st.sampled_from([1, 1, 1, 2]),
    told=st.sampled_from([True, True, True, False]),
)
def test_events_of_the_usual_shape_mean_the_same_as_read_one_by_one(
    before: int, streamed: list[bytes], continuous: bool, choices: int, told: bool
) -> None:
    data = b"".join(streamed)
    quick = counter(choices=choices, continuous_usage=continuous)
    thorough = counter(choices=choices, continuous_usage=continuous)
    for count in (quick, thorough):
        if told:
            count.read(dumps({**chunk("a"), "usage": usage(before)}))

    ordinary = quick.ordinary(data)

    if ordinary is None:
        assert quick.output_tokens == thorough.output_tokens
        return
    events, began = Events(), thorough.output_tokens
    read = [thorough.read(payload) for payload in events.feed(data)]
    assert not events.parts
    assert ordinary == b"".join(b"data: %b\n\n" % one.payload for one in read if one.payload)
    assert not any(one.done or one.error or one.finish_reason for one in read)
    assert (quick.output_tokens > began) == any(one.tokens for one in read)
    assert vars(quick) == vars(thorough)


@pytest.mark.parametrize(
    "generated",
    [
        '"text":"a \\\\ \\"b\\" \\u00e9 é"',
        '"delta":{"content":""}',
        '"delta":{"reasoning":"why"}',
    ],
)
def test_what_vllm_streams_for_most_tokens_has_the_usual_shape(generated: str) -> None:
    count = counter()
    count.read(dumps({**chunk("a"), "usage": usage(1)}))
    head = '"id":"cmpl-1","object":"text_completion","created":1790000000,"model":"a/b"'
    ends = '"logprobs":null,"finish_reason":null,"stop_reason":null,"token_ids":null'
    told = '"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":%d}'
    shown = f'data: {{{head},"choices":[{{"index":0,{generated},{ends}}}]}}\n\n'
    sent = shown.replace("]}\n", f"],{told}}}\n")

    got = count.ordinary((sent % 2 + sent % 3).encode())

    assert got == 2 * shown.encode()
    assert count.output_tokens == 3


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


def test_what_is_no_number_is_no_count() -> None:
    usage = {"prompt_tokens": True, "prompt_tokens_details": {"cached_tokens": 3.0}}

    assert prompt_usage(usage) == (None, None)
