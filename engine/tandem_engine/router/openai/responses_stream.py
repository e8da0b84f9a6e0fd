"""The stream of `/v1/responses`: its counts, and the whole answer, which its last event has."""

from typing import Any

from tandem_engine.router.openai.named_events import Event, whole


class ResponsesMeaning:
    """The meaning of its events."""

    starts = frozenset(("response.created", "response.in_progress"))
    ends = frozenset(("response.completed", "response.incomplete"))

    def tokens(self, event: Event) -> bool:
        """Return whether an event carries a part of the answer."""
        name: str = event["type"]
        return name.endswith(".delta") and bool(event.get("delta"))

    def usage(self, event: Event) -> Event | None:
        """Return the usage in the last event."""
        if event["type"] not in self.ends:
            return None
        usage: Event | None = event["response"].get("usage")
        return usage

    def aborted(self, event: Event) -> bool:
        """Return whether the engine reports that it gave the answer up."""
        return event["type"] == "response.failed" or (
            event["type"] in self.ends and event["response"].get("status") == "cancelled"
        )

    def prompt_tokens(self, usage: Event) -> tuple[int | None, int | None]:
        """Return the prompt tokens, and the cached ones of them."""
        details = usage.get("input_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        return whole(usage.get("input_tokens")), whole(cached)


class ResponsesAssembly:
    """One answer; the last event has all of it."""

    def __init__(self) -> None:
        self._answer: dict[str, Any] | None = None

    def add(self, event: Event) -> None:
        """Add one event."""
        if event["type"] in ResponsesMeaning.ends:
            self._answer = event["response"]

    def answer(self) -> dict[str, Any]:
        """Return the whole answer as the engine would give it without a stream."""
        if not isinstance(self._answer, dict):
            raise TypeError("a stream without its last event")
        return self._answer
