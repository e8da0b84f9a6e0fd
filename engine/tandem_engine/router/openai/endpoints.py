"""The generating endpoints, by the names under which the router counts and learns."""

from enum import StrEnum


class EndpointKind(StrEnum):
    """The generating endpoints: two with chunks of choices, two with events that have names."""

    COMPLETIONS = "completions"
    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"

    @property
    def path(self) -> str:
        """Return the path, the same at the router and at the engine."""
        return _PATHS[self]


_PATHS = {
    EndpointKind.COMPLETIONS: "/v1/completions",
    EndpointKind.CHAT: "/v1/chat/completions",
    EndpointKind.RESPONSES: "/v1/responses",
    EndpointKind.MESSAGES: "/v1/messages",
}
