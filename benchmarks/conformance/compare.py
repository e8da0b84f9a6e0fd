"""Two answers to one call: in which fields they differ. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

IGNORED = frozenset(
    (
        *("id", "item_id", "response_id", "call_id", "request_id", "signature"),
        *("created", "created_at", "sequence_number"),
        *("x-request-id", "date"),
    )
)
"""Fields whose value is new in each answer, and so only has to be there."""
_JOINED = frozenset(("text", "content", "delta", "arguments", "thinking", "partial_json"))
_LAST = frozenset(("finish_reason", "stop_reason", "system_fingerprint", "usage"))
_OPEN = frozenset(("top_logprobs", "tool_calls"))
"""Names below the first are tokens; a tool's name stands in one event of its call only."""
_NEW = "<new in each answer>"

Flat = dict[str, Any]


class Kind(StrEnum):
    """The kind of difference of a field."""

    NULL = "null"
    MISSING = "missing"
    ADDED = "added"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of one call that the pool answers otherwise."""

    call: str
    field: str
    kind: Kind
    plain: Any = None
    pool: Any = None

    def __str__(self) -> str:
        shown = {
            Kind.NULL: "only plain vLLM, as null",
            Kind.MISSING: f"only plain vLLM: {_short(self.plain)}",
            Kind.ADDED: f"only the pool: {_short(self.pool)}",
            Kind.CHANGED: f"plain vLLM: {_short(self.plain)}, the pool: {_short(self.pool)}",
        }[self.kind]
        return f"{self.call}  {self.field}  {self.kind}  {shown}"


def differences(call: str, plain: Mapping[str, Any], pool: Mapping[str, Any]) -> list[Difference]:
    """Return every field in which the pool's answer to `call` is not plain vLLM's.

    Where one is an error and the other is none, that is the difference, and not each field.
    """
    if plain["status"] != pool["status"]:
        plain, pool = _without_content(plain), _without_content(pool)
    ours, theirs = flat(_collapsed(pool)), flat(_collapsed(plain))
    found = [
        Difference(call, field, Kind.NULL if value is None else Kind.MISSING, plain=value)
        for field, value in theirs.items()
        if field not in ours
    ]
    for field, value in ours.items():
        if field not in theirs:
            found.append(Difference(call, field, Kind.ADDED, pool=value))
        elif theirs[field] != value:
            found.append(Difference(call, field, Kind.CHANGED, plain=theirs[field], pool=value))
    return found


def _without_content(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in answer.items() if name in ("status", "header")}


def flat(answer: Any) -> Flat:
    """Return an answer as paths to its leaves.

    A value that is new in each answer is only noted as present.
    """
    return dict(_leaves("", answer))


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _leaves(f"{path}.{name}" if path else name, each)
    elif isinstance(value, list) and value:
        for index, each in enumerate(value):
            yield from _leaves(f"{path}.{index}", each)
    else:
        new = path.rpartition(".")[2] in IGNORED and value is not None
        yield path, _NEW if new else value


def _collapsed(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Join events of one shape that follow each other: how many tokens one holds is chance.

    So is the order of the events of several choices.
    """
    if "events" not in answer:
        return answer
    joined: list[Any] = []
    for event in answer["events"]:
        at = _place(joined, event)
        if at is None:
            joined.append(event)
        else:
            joined[at] = _join(joined[at], event)
    return {**answer, "events": joined}


def _place(joined: Sequence[Any], event: Any) -> int | None:
    """Return the place of an event: at the last one of its choice, with no other shape between."""
    for at in range(len(joined) - 1, -1, -1):
        if _shape(joined[at]) != _shape(event):
            return None
        if _choice(joined[at]) == _choice(event):
            return at
    return None


def _shape(event: Any) -> Any:
    """Return the names in an event, without those that the last one of a stream alone has."""
    if isinstance(event, Mapping):
        names = (
            (name, None if name in _OPEN else _shape(value))
            for name, value in event.items()
            if name not in _LAST
        )
        return event.get("type"), tuple(sorted(names, key=repr))
    if isinstance(event, list):
        return "list", *sorted({repr(_shape(each)) for each in event})
    return None


def _choice(event: Any) -> Any:
    choices = event.get("choices") if isinstance(event, Mapping) else None
    return [choice.get("index") for choice in choices or ()]


def _join(first: Any, second: Any, name: str = "") -> Any:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        names = dict.fromkeys((*first, *second))
        return {key: _join(first.get(key), second.get(key), key) for key in names}
    if isinstance(first, list) and isinstance(second, list):
        if name == "choices":
            return [_join(a, b) for a, b in zip(first, second, strict=True)]
        return _calls_of(first, second) if name == "tool_calls" else first + second
    if isinstance(first, str) and isinstance(second, str) and name in _JOINED:
        return first + second
    return first if second is None else second


def _calls_of(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Return the parts of tools' calls, those of one index joined."""
    calls = {call.get("index"): call for call in first}
    for call in second:
        calls[call.get("index")] = _join(calls.get(call.get("index"), {}), call)
    return list(calls.values())


def _short(value: Any, most: int = 120) -> str:
    shown = repr(value)
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def rows_of(page: str, *, heading: str) -> list["Written"]:
    """Return the written differences: the rows of the table below `heading`.

    Raises:
        ValueError: a row is not of the table's shape.
    """
    _, found, below = page.partition(f"\n{heading}\n")
    if not found:
        raise ValueError(f"the page has no heading {heading!r}")
    rows = []
    for line in below.split("\n#", 1)[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if not line.startswith("| `"):
            continue
        if len(cells) != 4:
            raise ValueError(f"a row needs calls, fields, kind and reason: {line}")
        calls, fields, kinds, _ = cells
        each = frozenset(Kind(kind) for kind in kinds.split(", "))
        rows.append(Written(_quoted(calls), _quoted(fields), each))
    return rows


def _quoted(cell: str) -> tuple[str, ...]:
    return tuple(cell.split("`")[1::2])


@dataclass(frozen=True, slots=True)
class Written:
    """A difference that is written down: patterns of calls and of fields, with `*` for anything."""

    calls: Sequence[str]
    fields: Sequence[str]
    kinds: frozenset[Kind]

    def holds(self, difference: Difference) -> bool:
        """Return whether it describes this difference."""
        return (
            difference.kind in self.kinds
            and any(_matches(pattern, difference.call) for pattern in self.calls)
            and any(_matches(pattern, difference.field) for pattern in self.fields)
        )


def _matches(pattern: str, text: str) -> bool:
    # Not as names of files match: a `?` or a bracket of a field means itself.
    parts = map(re.escape, pattern.split("*"))
    return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None
