"""A client's request: checked once, then turned into the prefill body and the decode body.

KV parameters never come from a client: they would let it aim a pull at any host.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tandem_engine.router.errors import ApiError
from tandem_engine.router.settings import Settings

KV_PARAMS = "kv_transfer_params"

REMOTE_DECODE = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}

# As many as OpenAI takes: each is a stream of its own at the decode pod.
_MOST_CHOICES = 128

# They shape the answer, not the KV cache, and the prefill pod's answer is thrown away.
_ANSWER_ONLY = (
    "stream_options",
    "min_tokens",
    "echo",
    "logprobs",
    "top_logprobs",
    "return_token_ids",
)


class Kind(StrEnum):
    """The two generating endpoints."""

    COMPLETIONS = "completions"
    CHAT = "chat"

    @property
    def path(self) -> str:
        """Return the path, the same at the router and at the engine."""
        return "/v1/chat/completions" if self is Kind.CHAT else "/v1/completions"


@dataclass(frozen=True, slots=True)
class Call:
    """One accepted request.

    Attributes:
        body: the client's own document without KV parameters.
        exact_prompt_tokens: known for token-id prompts only.
        prompt_bytes: size of the text that becomes the prompt.
        choices: of all prompts together.
        max_output_tokens: what was asked for, at most what the model can make; `None`: no bound.
        split: whether prefill and decode may run on different pods.
    """

    kind: Kind
    body: Mapping[str, Any]
    stream: bool
    include_usage: bool
    continuous_usage: bool
    exact_prompt_tokens: int | None
    prompt_bytes: int
    prompts: int
    max_output_tokens: int | None
    choices: int
    split: bool

    def prefill_body(self) -> bytes:
        """Return what a prefill pod is asked: the prompt's KV blocks and one token.

        Raises `ApiError` for a body too deep to be written again, as `decode_body` does.
        """
        body = {key: value for key, value in self.body.items() if key not in _ANSWER_ONLY}
        body["stream"] = False
        body["max_tokens"] = 1
        if "max_completion_tokens" in body:
            body["max_completion_tokens"] = 1
        body[KV_PARAMS] = REMOTE_DECODE
        return _encoded(body)

    def decode_body(self, kv_params: Any) -> bytes:
        """Return what a decode pod is asked; always streamed, with usage on each chunk."""
        body = dict(self.body)
        body["stream"] = True
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        if kv_params is not None:
            body[KV_PARAMS] = kv_params
        return _encoded(body)


def parse_call(kind: Kind, raw: bytes, settings: Settings) -> Call:
    """Return the call in `raw`, or raise `ApiError` with a sentence for the client."""
    body = _document(raw)
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise ApiError(
            400, f"model: a name is needed, such as {settings.models[0]!r}.", param="model"
        )
    if model not in settings.models:
        known = ", ".join(repr(name) for name in settings.models)
        raise ApiError(
            404,
            f"model: {model[:100]!r} is not served here; served: {known}.",
            param="model",
            code="model_not_found",
        )
    stream = _boolean(body, "stream")
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise ApiError(400, "stream_options: an object is needed.", param="stream_options")
    if options is not None and not stream:
        raise ApiError(
            400, "stream_options: only allowed with stream: true.", param="stream_options"
        )
    for name in ("prompt_logprobs", "use_beam_search"):
        if body.get(name) not in (None, False):
            raise ApiError(
                400,
                f"{name}: not available here, because answers are streamed from the engine"
                " token by token; leave it out.",
                param=name,
                code="unsupported_parameter",
            )
    choices = _choices(body, "n") or 1
    max_output_tokens = _max_output_tokens(body)
    if kind is Kind.CHAT:
        prompts, tokens, size = 1, None, _chat_bytes(body)
    else:
        prompts, tokens, size = _completion_prompt(body)
        if prompts == 1 and tokens is not None:
            _check_length(tokens, max_output_tokens, settings.max_model_len)
    if max_output_tokens is not None and settings.max_model_len is not None:
        max_output_tokens = min(max_output_tokens, settings.max_model_len)
    # One prefill answer names the KV blocks of one prompt, and they are freed by its first pull.
    split = (
        prompts == 1
        and choices == 1
        and _choices(body, "best_of") in (None, 1)
        and max_output_tokens != 0
        and not (body.get("echo") and body.get("logprobs") is not None)
        and body.get("prompt_embeds") is None
        and body.get("tool_choice") in (None, "auto", "none")
    )
    return Call(
        kind=kind,
        body=_without_kv_params(body),
        stream=stream,
        include_usage=bool(options and options.get("include_usage")),
        continuous_usage=bool(options and options.get("continuous_usage_stats")),
        exact_prompt_tokens=tokens,
        prompt_bytes=size,
        prompts=prompts,
        max_output_tokens=max_output_tokens,
        choices=choices * prompts,
        split=split,
    )


def _document(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise ApiError(400, "The body is not valid JSON.", code="invalid_json") from None
    if not isinstance(body, dict):
        raise ApiError(400, "The body must be a JSON object.", code="invalid_json")
    return body


def _encoded(value: Any) -> bytes:
    # What could just be read at one depth of the stack cannot be written at a greater one.
    try:
        return json.dumps(value).encode()
    except RecursionError:
        raise ApiError(400, "The body is nested too deeply.", code="invalid_json") from None


def _without_kv_params(body: dict[str, Any]) -> dict[str, Any]:
    body.pop(KV_PARAMS, None)
    # The engine copies these arguments to the same place where it keeps KV parameters.
    extra = body.get("vllm_xargs")
    if isinstance(extra, dict) and KV_PARAMS in extra:
        body["vllm_xargs"] = {key: value for key, value in extra.items() if key != KV_PARAMS}
    return body


def _boolean(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise ApiError(400, f"{name}: true or false is needed.", param=name)
    return bool(value)


def _choices(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_CHOICES:
        raise ApiError(
            400, f"{name}: a whole number from 1 to {_MOST_CHOICES} is needed.", param=name
        )
    return value


def _max_output_tokens(body: Mapping[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ApiError(400, f"{name}: a whole number such as 256 is needed.", param=name)
        return value
    return None


def _chat_bytes(body: Mapping[str, Any]) -> int:
    messages = body.get("messages")
    if (
        not isinstance(messages, list)
        or not messages
        or not all(isinstance(message, dict) for message in messages)
    ):
        raise ApiError(
            400, "messages: a list with at least one message is needed.", param="messages"
        )
    size = sum(_text_bytes(message.get("content")) for message in messages)
    tools = body.get("tools")
    return size + (len(_encoded(tools)) if tools else 0)


def _text_bytes(content: Any) -> int:
    if isinstance(content, str):
        return len(content.encode(errors="replace"))
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        return sum(_text_bytes(text) for text in texts if isinstance(text, str))
    return 0


def _completion_prompt(body: Mapping[str, Any]) -> tuple[int, int | None, int]:
    """Return the number of prompts, their tokens where known, and their bytes."""
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return 1, None, _text_bytes(prompt)
    if prompt is None and body.get("prompt_embeds") is not None:
        return 1, None, 0
    if isinstance(prompt, list) and prompt:
        if _token_ids(prompt):
            return 1, len(prompt), 0
        if all(isinstance(one, str) for one in prompt):
            return len(prompt), None, sum(map(_text_bytes, prompt))
        if all(isinstance(one, list) and one and _token_ids(one) for one in prompt):
            return len(prompt), sum(map(len, prompt)), 0
    raise ApiError(
        400,
        "prompt: a text, a list of texts, a list of token ids or a list of such lists is needed.",
        param="prompt",
    )


def _token_ids(values: list[Any]) -> bool:
    return all(type(value) is int and value >= 0 for value in values)


def _check_length(tokens: int, max_output_tokens: int | None, max_model_len: int | None) -> None:
    if max_model_len is None:
        return
    wanted = tokens + (1 if max_output_tokens is None else max_output_tokens)
    if wanted > max_model_len:
        raise ApiError(
            400,
            f"This model's maximum context length is {max_model_len} tokens, but the prompt has"
            f" {tokens} and {wanted - tokens} output tokens were asked for.",
            param="prompt",
            code="context_length_exceeded",
        )
