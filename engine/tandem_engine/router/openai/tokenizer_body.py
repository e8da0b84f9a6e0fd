"""Bodies of the endpoints that count or name tokens and generate none."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.openai.call import check_model, read_object
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.openai.fields import Fields, checked
from tandem_engine.router.openai.messages_body import COUNTED
from tandem_engine.router.openai.prompts import text_bytes

MOST_BYTES = 4 * 1024 * 1024
"""Most bytes of a body, images included."""
_BYTES_PER_TOKEN = 16
# Of a part of a message: what of it is a medium and no text.
_MEDIUM = {
    "image": "source",
    "image_url": "image_url",
    "input_audio": "input_audio",
    "audio_url": "audio_url",
    "video_url": "video_url",
}

_TEXT = """
model prompt messages add_special_tokens return_token_strs add_generation_prompt
continue_final_message chat_template_kwargs tools
"""


class TokenizerKind(StrEnum):
    """The kinds of requests to an engine's tokenizer."""

    TOKENIZE = "tokenize"
    DETOKENIZE = "detokenize"
    COUNT_TOKENS = "count_tokens"

    @property
    def path(self) -> str:
        """Return the path, the same at the router and at the engine."""
        return "/v1/messages/count_tokens" if self is TokenizerKind.COUNT_TOKENS else f"/{self}"


_FIELDS: Mapping[TokenizerKind, Fields] = {
    TokenizerKind.TOKENIZE: Fields(passed=frozenset(_TEXT.split()), dropped=frozenset()),
    TokenizerKind.DETOKENIZE: Fields(passed=frozenset(("model", "tokens")), dropped=frozenset()),
    TokenizerKind.COUNT_TOKENS: COUNTED,
}


def tokenizer_body(kind: TokenizerKind, raw: bytes, settings: RouterSettings) -> bytes:
    """Return the body for an engine, or raise `ApiError` with a sentence for the client.

    The model can be left out if engines allow that.
    """
    body = read_object(raw, settings.limits)
    if kind is TokenizerKind.COUNT_TOKENS or body.get("model") is not None:
        check_model(body.get("model"), settings)
    passed = checked(body, _FIELDS[kind]) | {"model": settings.models[0]}
    _check_size(passed, settings.max_model_len)
    return json.dumps(passed).encode()


def _check_size(body: Mapping[str, Any], max_model_len: int | None) -> None:
    """Refuse a text that is too long for a prompt: an engine reads it in turn with prompts."""
    if max_model_len is None:
        return
    size, most = _text_in(body), max_model_len * _BYTES_PER_TOKEN
    if size > most:
        raise ApiError(
            400,
            f"The text has {size} bytes, but this model's maximum context length is"
            f" {max_model_len} tokens, so at most {most} bytes are read; send a shorter text.",
            code="context_length_exceeded",
        )


def _text_in(body: Mapping[str, Any]) -> int:
    """Return the bytes of text that an engine reads: all but media."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return text_bytes(body)
    rest = {name: value for name, value in body.items() if name != "messages"}
    return text_bytes(rest) + sum(map(_text_in_content, messages))


def _text_in_content(holder: Any) -> int:
    """Return the bytes of text of a message, or of a tool result."""
    if not isinstance(holder, dict) or not isinstance(holder.get("content"), list):
        return text_bytes(holder)
    rest = {name: value for name, value in holder.items() if name != "content"}
    return text_bytes(rest) + sum(map(_text_in_part, holder["content"]))


def _text_in_part(part: Any) -> int:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "tool_result":
        return _text_in_content(part)
    medium = _MEDIUM.get(kind) if isinstance(kind, str) else None
    if medium is None:
        return text_bytes(part)
    return text_bytes({name: value for name, value in part.items() if name != medium})
