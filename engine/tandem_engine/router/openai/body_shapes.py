"""The bodies of the generating endpoints, and the parts that each of the two legs gets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tandem_engine.router.openai import messages_body, responses_body
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.fields import CHUNKED, Fields
from tandem_engine.router.openai.prompts import (
    Prompt,
    chat_prompt,
    completion_prompt,
    messages_prompt,
    responses_prompt,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyShape:
    """The bodies of one endpoint.

    Attributes:
        output_bounds: fields that bound the tokens of an answer, the one in force first.
        decode_only: fields that shape the answer and not the KV cache; a prefill pod needs none.
        prefill: further fields for a prefill pod: one token, and no stream.
        decode: further fields for a decode pod.
        has_stream_options: whether the client chooses the usage that it gets.
        check: raises `ApiError` for values that no engine may get.
    """

    fields: Fields
    prompt: Callable[[Mapping[str, Any], int | None], Prompt]
    output_bounds: tuple[str, ...]
    decode_only: tuple[str, ...]
    prefill: Mapping[str, Any]
    decode: Mapping[str, Any]
    has_stream_options: bool = False
    check: Callable[[Mapping[str, Any]], None] = lambda body: None


_CHUNKED_DECODE_ONLY = (
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "echo",
    "logprobs",
    "top_logprobs",
    "logprob_token_ids",
    "return_token_ids",
    "return_prompt_text",
    "return_tokens_as_token_ids",
)
_CHUNKED_DECODE = {
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}
_CHUNKED_BOUNDS = ("max_completion_tokens", "max_tokens")

SHAPES: Mapping[EndpointKind, BodyShape] = {
    EndpointKind.COMPLETIONS: BodyShape(
        fields=CHUNKED,
        prompt=lambda body, longest: completion_prompt(body, max_model_len=longest),
        output_bounds=_CHUNKED_BOUNDS,
        decode_only=_CHUNKED_DECODE_ONLY,
        prefill={"stream": False, "max_tokens": 1},
        decode=_CHUNKED_DECODE,
        has_stream_options=True,
    ),
    EndpointKind.CHAT: BodyShape(
        fields=CHUNKED,
        prompt=lambda body, _: chat_prompt(body),
        output_bounds=_CHUNKED_BOUNDS,
        decode_only=_CHUNKED_DECODE_ONLY,
        prefill={"stream": False, "max_tokens": 1, "max_completion_tokens": 1},
        decode=_CHUNKED_DECODE,
        has_stream_options=True,
    ),
    EndpointKind.RESPONSES: BodyShape(
        fields=responses_body.FIELDS,
        prompt=lambda body, _: responses_prompt(body),
        output_bounds=("max_output_tokens",),
        decode_only=("max_output_tokens", "include", "top_logprobs"),
        prefill={"stream": False, "store": False, "max_output_tokens": 1},
        decode={"stream": True, "store": False},
        check=responses_body.check,
    ),
    EndpointKind.MESSAGES: BodyShape(
        fields=messages_body.FIELDS,
        prompt=lambda body, _: messages_prompt(body),
        output_bounds=("max_tokens",),
        decode_only=("max_tokens",),
        prefill={"stream": False, "max_tokens": 1},
        decode={"stream": True},
    ),
}
