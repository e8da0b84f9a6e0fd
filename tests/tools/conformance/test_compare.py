"""Two answers differ or not, and the page of written differences covers them or not."""

from typing import Any

import pytest

from benchmarks.conformance.__main__ import HEADING, PAGE, idle, unwritten
from benchmarks.conformance.calls import CALLS
from benchmarks.conformance.compare import (
    IGNORED,
    Difference,
    Kind,
    Written,
    differences,
    flat,
    rows_of,
)


def answer(**more: Any) -> dict[str, Any]:
    return {"status": 200, "header": {}, **more}


def found(plain: dict[str, Any], pool: dict[str, Any]) -> list[tuple[str, Kind]]:
    return [(each.field, each.kind) for each in differences("chat/a", plain, pool)]


def test_a_field_is_missing_null_added_or_changed() -> None:
    plain = answer(body={"a": 1, "b": None, "c": 1})
    pool = answer(body={"c": 2, "d": None})

    assert found(plain, pool) == [
        ("body.a", Kind.MISSING),
        ("body.b", Kind.NULL),
        ("body.c", Kind.CHANGED),
        ("body.d", Kind.ADDED),
    ]


def test_what_is_new_in_each_answer_has_only_to_be_there() -> None:
    plain, pool = answer(body={"id": "x", "created": 1}), answer(body={"id": "y"})

    assert found(plain, pool) == [("body.created", Kind.MISSING)]


def test_a_null_is_no_id() -> None:
    assert found(answer(body={"id": "x"}), answer(body={"id": None})) == [("body.id", Kind.CHANGED)]


def test_of_an_error_beside_an_answer_only_the_status_is_told() -> None:
    plain = answer(body={"choices": [1]})
    pool = {"status": 400, "header": {}, "body": {"error": {}}, "raised": "BadRequestError"}

    assert found(plain, pool) == [("status", Kind.CHANGED)]


def chunk(text: str, *, index: int = 0, last: bool = False) -> dict[str, Any]:
    reason = "stop" if last else None
    more = {"system_fingerprint": "f"} if last else {}
    return {"choices": [{"index": index, "text": text, "finish_reason": reason}], **more}


def test_how_many_tokens_an_event_holds_is_no_difference() -> None:
    plain = answer(events=[chunk("a"), chunk("b"), chunk("c", last=True)])
    pool = answer(events=[chunk("ab"), chunk("c", last=True)])

    assert found(plain, pool) == []
    assert found(plain, answer(events=[chunk("a"), chunk("bc", last=True)])) == []


def test_nor_is_it_with_the_likeliest_tokens_of_each() -> None:
    def event(*tokens: str) -> dict[str, Any]:
        return {
            "choices": [{"index": 0, "logprobs": {"top_logprobs": [{t: -1.0} for t in tokens]}}]
        }

    assert found(answer(events=[event("a"), event("b")]), answer(events=[event("a", "b")])) == []
    assert found(answer(events=[event("a", "b")]), answer(events=[event("a"), event("c")])) != []


def tool_chunk(*calls: tuple[int, dict[str, str]]) -> dict[str, Any]:
    parts = [{"index": index, "function": function} for index, function in calls]
    return {"choices": [{"index": 0, "delta": {"tool_calls": parts}}]}


def test_nor_is_it_in_the_arguments_of_a_tool() -> None:
    start = tool_chunk((0, {"name": "clock", "arguments": "n"}))
    plain = answer(events=[start, tool_chunk((0, {"arguments": "ull"}))])
    pool = answer(
        events=[start, tool_chunk((0, {"arguments": "ul"})), tool_chunk((0, {"arguments": "l"}))]
    )
    whole = tool_chunk((0, {"name": "clock", "arguments": "null"}))
    other = answer(events=[start, tool_chunk((0, {"arguments": "u"}))])
    two = answer(events=[start, tool_chunk((0, {"arguments": "ul"}), (1, {"arguments": "l"}))])

    assert found(plain, pool) == []
    assert found(plain, answer(events=[whole])) == []
    assert found(plain, other) != []
    assert found(plain, two) != []


def test_another_text_or_end_of_a_stream_is_a_difference() -> None:
    plain = answer(events=[chunk("a"), chunk("b", last=True)])

    assert found(plain, answer(events=[chunk("a"), chunk("x", last=True)])) == [
        ("events.0.choices.0.text", Kind.CHANGED)
    ]
    assert found(plain, answer(events=[chunk("a"), chunk("b")]))


def test_the_order_of_two_choices_is_no_difference() -> None:
    one = [chunk("a"), chunk("x", index=1), chunk("b"), chunk("y", index=1)]
    other = [chunk("a"), chunk("b"), chunk("x", index=1), chunk("y", index=1)]

    assert found(answer(events=one), answer(events=other)) == []


def test_events_of_different_names_are_not_joined() -> None:
    events = [{"type": "a", "text": "1"}, {"type": "b", "text": "2"}]

    assert found(answer(events=events), answer(events=events[:1])) == [
        ("events.1.type", Kind.MISSING),
        ("events.1.text", Kind.MISSING),
    ]


@pytest.mark.parametrize(
    ("pattern", "field", "holds"),
    [
        ("body.usage.*", "body.usage.a", True),
        ("body.usage.*", "body.usages.a", False),
        ("*.root", "body.data.0.root", True),
        ("body.*.root", "body.data.0.root", True),
        ("body.root", "body.root", True),
        ("body.root", "body.root.a", False),
        ("a*a", "a", False),
    ],
)
def test_a_row_speaks_of_the_fields_that_it_names(pattern: str, field: str, holds: bool) -> None:
    row = Written(("chat/*",), (pattern,), frozenset((Kind.MISSING,)))

    assert row.holds(Difference("chat/a", field, Kind.MISSING)) is holds
    assert not row.holds(Difference("chat/a", field, Kind.CHANGED))
    assert not row.holds(Difference("http/a", field, Kind.MISSING))


def test_what_no_row_speaks_of_and_rows_that_speak_of_nothing_are_found() -> None:
    row = Written(("chat/*",), ("status",), frozenset((Kind.CHANGED,)))
    known = Difference("chat/a", "status", Kind.CHANGED)
    new = Difference("chat/a", "body.a", Kind.MISSING)

    assert unwritten([known, new], [row]) == [new]
    assert idle([new], [row]) == [row]
    assert idle([known], [row]) == []


def test_a_row_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="a row needs"):
        rows_of("# A\n\n## B\n\n| `a` | `b` | missing |\n", heading="## B")


def test_every_row_of_the_page_names_calls_that_there_are() -> None:
    names = [call.name for call in CALLS]
    rows = rows_of(PAGE.read_text(), heading=HEADING)

    assert len(names) == len(set(names))
    assert len(rows) > 10
    for row in rows:
        for pattern in row.calls:
            one = Written((pattern,), ("*",), frozenset(Kind))
            assert any(one.holds(Difference(name, "x", Kind.MISSING)) for name in names), pattern


def test_the_page_names_every_field_that_is_only_looked_for() -> None:
    _, _, below = PAGE.read_text().partition("## What is compared")
    named = below.partition("\n## ")[0].split("`")[1::2]

    assert set(named) == IGNORED


def test_an_empty_list_is_a_leaf() -> None:
    assert flat({"a": [], "b": {}}) == {"a": [], "b": {}}
