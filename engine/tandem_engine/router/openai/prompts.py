"""The size of a prompt: its text, its media, and its token ids.

Every string that a chat template may render counts. An image, a sound or a film counts as one
medium, whatever its bytes: its size in tokens does not depend on its encoding.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tandem_engine.router.openai.errors import ApiError

_MEDIA_KEYS = """
image image_url input_image image_pil image_embeds audio audio_url input_audio audio_embeds video
video_url file
"""
_MEDIA = frozenset(_MEDIA_KEYS.split())
_MEDIA_TYPES = frozenset(
    ("image", "input_image", "image_url", "document", "input_file", "input_audio", "input_video")
)
_RENDERED = ("tools", "documents", "chat_template_kwargs")
_NUMBER_BYTES = 4


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of a body.

    Attributes:
        prompts: number of prompts.
        exact_tokens: of all prompts, known for token ids only.
        size: bytes of text.
        media: images, sounds and films.
        learnable: whether its tokens show the tokens per byte of text: engines cut none of it.
    """

    prompts: int = 1
    exact_tokens: int | None = None
    size: int = 0
    media: int = 0
    learnable: bool = True


def chat_prompt(body: Mapping[str, Any]) -> Prompt:
    """Return the size of a chat; raises `ApiError` without messages."""
    _check_messages(body.get("messages"))
    size = media = 0
    for message in body["messages"]:
        for name, value in message.items():
            size += text_bytes(name)
            if name == "content" and isinstance(value, list):
                for part in value:
                    shown = isinstance(part, dict) and not _MEDIA.isdisjoint(part)
                    media += shown
                    size += text_bytes(part.get("text") if shown else part)
            else:
                size += text_bytes(value)
    size += sum(text_bytes(body.get(name)) for name in _RENDERED)
    return Prompt(size=size, media=media, learnable=body.get("truncate_prompt_tokens") is None)


def messages_prompt(body: Mapping[str, Any]) -> Prompt:
    """Return the size of Anthropic's messages; raises `ApiError` without messages."""
    _check_messages(body.get("messages"))
    size, media = _content((body.get("system"), body["messages"]))
    return Prompt(size=size + sum(text_bytes(body.get(name)) for name in _RENDERED), media=media)


def responses_prompt(body: Mapping[str, Any]) -> Prompt:
    """Return the size of the input of a response; raises `ApiError` without input."""
    given = body.get("input")
    if not isinstance(given, str | list) or not given:
        raise ApiError(400, "input must be text or a list with at least one item.", param="input")
    size, media = _content((body.get("instructions"), given))
    return Prompt(
        size=size + sum(text_bytes(body.get(name)) for name in _RENDERED),
        media=media,
        learnable=body.get("truncation") in (None, "disabled"),
    )


def completion_prompt(body: Mapping[str, Any], *, max_model_len: int | None) -> Prompt:
    """Return the size of one or more prompts; raises `ApiError` without a prompt."""
    kept = _kept_tokens(body.get("truncate_prompt_tokens"), max_model_len)
    prompt = body.get("prompt")
    learnable = body.get("truncate_prompt_tokens") is None
    if isinstance(prompt, str):
        return Prompt(size=text_bytes(prompt), learnable=learnable)
    if prompt is None and body.get("prompt_embeds") is not None:
        return Prompt(learnable=False)
    if isinstance(prompt, list) and prompt:
        if _token_ids(prompt):
            return Prompt(exact_tokens=min(len(prompt), kept), learnable=learnable)
        if all(isinstance(one, str) for one in prompt):
            size = sum(map(text_bytes, prompt))
            return Prompt(prompts=len(prompt), size=size, learnable=learnable)
        if all(isinstance(one, list) and one and _token_ids(one) for one in prompt):
            tokens = sum(min(len(one), kept) for one in prompt)
            return Prompt(prompts=len(prompt), exact_tokens=tokens, learnable=learnable)
    raise ApiError(
        400,
        "prompt must be text, a list of texts, a list of token IDs or a list of such lists.",
        param="prompt",
    )


def _check_messages(messages: Any) -> None:
    if (
        not isinstance(messages, list)
        or not messages
        or not all(isinstance(message, dict) for message in messages)
    ):
        raise ApiError(400, "messages must be a list with at least one message.", param="messages")


def _content(value: Any) -> tuple[int, int]:
    """Return the bytes of text in `value`, and the number of media by their types."""
    if isinstance(value, dict):
        kind = value.get("type")
        if isinstance(kind, str) and kind in _MEDIA_TYPES:
            return text_bytes(value.get("text")), 1
        names = sum(map(text_bytes, value))
        size, media = _content(list(value.values()))
        return names + size, media
    if isinstance(value, list | tuple):
        pairs = [_content(one) for one in value]
        return sum(size for size, _ in pairs), sum(media for _, media in pairs)
    return text_bytes(value), 0


def _kept_tokens(truncate_to: Any, max_model_len: int | None) -> int:
    """Return the tokens that an engine keeps of each prompt; the engine refuses other values."""
    if type(truncate_to) is not int:
        return sys.maxsize
    if truncate_to >= 0:
        return truncate_to
    # -1: as many as leave room for one token of answer.
    return sys.maxsize if max_model_len is None else max_model_len - 1


def text_bytes(value: Any) -> int:
    """Return the bytes of all strings in `value`, names included."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode(errors="replace"))
    if isinstance(value, dict):
        return sum(text_bytes(name) + text_bytes(one) for name, one in value.items())
    if isinstance(value, list):
        return sum(map(text_bytes, value))
    return 0 if value is None else _NUMBER_BYTES


def _token_ids(values: list[Any]) -> bool:
    return all(type(value) is int and value >= 0 for value in values)
