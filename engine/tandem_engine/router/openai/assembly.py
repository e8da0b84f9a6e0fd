"""Assembles the chunks of a stream into the answer to a request that asked for no stream."""

from typing import Any

from tandem_engine.router.openai.endpoints import EndpointKind

_JOINED = ("content", "reasoning", "reasoning_content", "refusal")
_CARRIED = ("system_fingerprint", "service_tier")
# A model may write as many calls as its tokens allow: only a leap is no call.
_MOST_CALLS_AT_ONCE = 64
# What engines say in a whole answer although there is nothing: clients may look for it.
_CHOICE_NULLS = dict.fromkeys(("logprobs", "finish_reason", "stop_reason", "token_ids"))
_COMPLETION_NULLS = dict.fromkeys(("prompt_logprobs", "prompt_token_ids"))
_CHAT_NULLS = dict.fromkeys(("prompt_logprobs", "prompt_token_ids", "prompt_text"))
_MESSAGE_NULLS = dict.fromkeys(
    ("content", "refusal", "annotations", "audio", "function_call", "reasoning")
)
_TOKEN_IDS = ("token_ids", "prompt_token_ids")


class Assembly:
    """One answer that is being assembled; its choices can be any number, in any order.

    Token ids are kept only for a client that asked: the engine streams some of them unasked.
    """

    def __init__(self, kind: EndpointKind, *, token_ids: bool = False) -> None:
        self._kind = kind
        self._carried = _CARRIED + (_TOKEN_IDS if token_ids else ())
        self._ids = _TOKEN_IDS if token_ids else ()
        self._head: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self._usage: dict[str, Any] | None = None

    def add(self, chunk: dict[str, Any]) -> None:
        """Add one chunk of the stream; raises one of `sse.SHAPE_ERRORS`."""
        for key in ("id", "created", "model", *self._carried):
            if chunk.get(key) is not None:
                self._head.setdefault(key, chunk[key])
        if chunk.get("usage"):
            self._usage = chunk["usage"]
        for piece in chunk.get("choices") or ():
            index = piece.get("index", 0)
            choice = self._choices.get(index)
            if choice is None:
                choice = self._choices[index] = self._empty_choice(index)
            for key in ("finish_reason", "stop_reason"):
                if piece.get(key) is not None:
                    choice[key] = piece[key]
            for key in self._ids:
                if piece.get(key):
                    if choice.get(key) is None:
                        choice[key] = []
                    choice[key].extend(piece[key])
            _join_logprobs(choice, piece.get("logprobs"))
            if self._kind is EndpointKind.CHAT:
                _join_delta(choice["message"], piece.get("delta") or {})
            else:
                choice["text"] += piece.get("text") or ""

    def answer(self) -> dict[str, Any]:
        """Return the whole answer as the engine would give it without a stream."""
        chat = self._kind is EndpointKind.CHAT
        return {
            "id": self._head.get("id"),
            "object": "chat.completion" if chat else "text_completion",
            "created": self._head.get("created"),
            "model": self._head.get("model"),
            "choices": [self._choices[index] for index in sorted(self._choices)],
            "service_tier": None,
            "system_fingerprint": None,
            "usage": self._usage,
            **(_CHAT_NULLS if chat else {}),
            **{key: self._head[key] for key in self._carried if key in self._head},
        }

    def _empty_choice(self, index: int) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": index, **_CHOICE_NULLS}
        if self._kind is EndpointKind.CHAT:
            choice["message"] = {"role": "assistant", **_MESSAGE_NULLS}
        else:
            choice |= {"text": "", **_COMPLETION_NULLS}
        return choice


def _join_delta(message: dict[str, Any], delta: dict[str, Any]) -> None:
    if delta.get("role"):
        message["role"] = delta["role"]
    for key in _JOINED:
        if delta.get(key) is not None:
            message[key] = (message.get(key) or "") + delta[key]
    if delta.get("function_call"):
        message["function_call"] = message.get("function_call") or {}
        _join_function(message["function_call"], delta["function_call"])
    for piece in delta.get("tool_calls") or ():
        calls = message.setdefault("tool_calls", [])
        index = piece.get("index", len(calls))
        if not 0 <= index < len(calls) + _MOST_CALLS_AT_ONCE:
            raise ValueError("an index of a tool call beyond all sense")
        while len(calls) <= index:
            calls.append({"id": None, "type": "function", "function": {}})
        for key in ("id", "type"):
            if piece.get(key):
                calls[index][key] = piece[key]
        _join_function(calls[index]["function"], piece.get("function") or {})


def _join_function(function: dict[str, Any], piece: dict[str, Any]) -> None:
    if piece.get("name"):
        function["name"] = piece["name"]
    function["arguments"] = function.get("arguments", "") + (piece.get("arguments") or "")


def _join_logprobs(choice: dict[str, Any], logprobs: dict[str, Any] | None) -> None:
    if not logprobs:
        return
    joined = choice["logprobs"]
    if joined is None:
        joined = choice["logprobs"] = {}
    for key, values in logprobs.items():
        if isinstance(values, list):
            joined.setdefault(key, []).extend(values)
        else:
            joined.setdefault(key, values)
