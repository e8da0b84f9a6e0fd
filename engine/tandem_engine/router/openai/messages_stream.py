"""The stream of `/v1/messages`: its counts, and the assembly of its events into one message."""

import json
from typing import Any

from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.openai.json_cost import check_shape
from tandem_engine.router.openai.named_events import Event, whole

_PARTS = ("text", "thinking", "partial_json")
_MOST_VALUES = 100_000


class MessagesMeaning:
    """The meaning of its events."""

    starts = frozenset(("message_start", "ping"))
    ends = frozenset(("message_stop",))

    def tokens(self, event: Event) -> bool:
        """Return whether an event carries a part of the answer."""
        if event["type"] != "content_block_delta":
            return False
        delta = event["delta"]
        return any(delta.get(part) for part in _PARTS)

    def usage(self, event: Event) -> Event | None:
        """Return the usage in the event before the last."""
        usage: Event | None = event.get("usage") if event["type"] == "message_delta" else None
        return usage

    def aborted(self, event: Event) -> bool:
        """Return whether the message ends without a reason, because the engine gave it up."""
        return event["type"] == "message_delta" and event["delta"].get("stop_reason") is None

    def prompt_tokens(self, usage: Event) -> tuple[int | None, int | None]:
        """Return the prompt tokens, and the cached ones of them.

        Anthropic counts cached tokens separately from the rest of the input.
        """
        rest, cached = whole(usage.get("input_tokens")), whole(usage.get("cache_read_input_tokens"))
        written = whole(usage.get("cache_creation_input_tokens"))
        return None if rest is None else rest + (cached or 0) + (written or 0), cached


class MessagesAssembly:
    """One message that is being assembled."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._joined: dict[tuple[int, str], list[str]] = {}

    def add(self, event: Event) -> None:
        """Add one event; raises one of `sse.SHAPE_ERRORS`."""
        name = event["type"]
        if name == "message_start":
            self._message = dict(event["message"])
        elif name == "content_block_start":
            self._blocks[event["index"]] = dict(event["content_block"])
        elif name == "content_block_delta":
            for part, value in event["delta"].items():
                if part != "type":
                    self._joined.setdefault((event["index"], part), []).append(value)
        elif name == "message_delta":
            self._message |= event["delta"]
            self._message["usage"] = event["usage"]

    def answer(self) -> dict[str, Any]:
        """Return the whole message as the engine would give it without a stream."""
        for (index, part), values in self._joined.items():
            joined, block = "".join(values), self._blocks[index]
            if part == "partial_json":
                block["input"] = _input_of(joined)
            else:
                block[part] = joined
        blocks = [_without_nulls(self._blocks[index]) for index in sorted(self._blocks)]
        message = self._message | {"content": blocks or [{"type": "text", "text": ""}]}
        return _without_nulls(message)


def _input_of(arguments: str) -> dict[str, Any]:
    """Return the arguments of a call; none if the model wrote no complete object.

    `max_tokens` can cut them, and a model can write anything: neither is a fault of the engine.
    """
    try:
        check_shape(arguments.encode(errors="replace"), most_elements=_MOST_VALUES)
        found = json.loads(arguments, parse_constant=lambda _: None)
    except (ValueError, ApiError):
        return {}
    return found if isinstance(found, dict) else {}


def _without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
