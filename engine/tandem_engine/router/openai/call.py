"""A client's request: checked once, then kept as the bytes that prefill and decode pods are sent.

What was read of it is let go of at once: its objects take many times the room of its text.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tandem_contracts.router_settings import LimitSettings, RouterSettings
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.openai.fields import checked
from tandem_engine.router.openai.json_cost import check_shape
from tandem_engine.router.openai.kv_fields import KV_PARAMS, NAME_FIELD, REMOTE_DECODE
from tandem_engine.router.openai.logprobs import check_logprobs
from tandem_engine.router.openai.prefixes import PrefixMarks
from tandem_engine.router.openai.prompts import Prompt, chat_prompt, completion_prompt

# They shape the answer, not the KV cache, and the prefill pod's answer is thrown away.
_DECODE_ONLY = (
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
# The router's own on both legs.
_OURS = ("stream", "stream_options")
_NOT_SHARED = frozenset(_DECODE_ONLY + _OURS)


class EndpointKind(StrEnum):
    """The two generating endpoints."""

    COMPLETIONS = "completions"
    CHAT = "chat"

    @property
    def path(self) -> str:
        """Return the path, the same at the router and at the engine."""
        return "/v1/chat/completions" if self is EndpointKind.CHAT else "/v1/completions"


@dataclass(frozen=True, slots=True)
class Call:
    """One accepted request.

    Attributes:
        shared: members of the JSON object that both legs are sent, without braces.
        decode_only: members that only the decode pod is sent.
        prompt: what it asks about.
        choices: of all prompts together.
        max_output_tokens: what was asked for, at most what the model can make; `None`: no bound.
        split: whether prefill and decode may run on different pods.
        marks: what tells which other prompts begin as this one does.
    """

    kind: EndpointKind
    shared: bytes
    decode_only: bytes
    stream: bool
    include_usage: bool
    continuous_usage: bool
    token_ids: bool
    prompt: Prompt
    max_output_tokens: int | None
    choices: int
    split: bool
    marks: bytes = field(default=b"", repr=False)

    def prefill_body(self, lease: str) -> bytes:
        """Return what a prefill pod is asked: the prompt's KV blocks and one token.

        `lease` is the name by which the blocks can be let go, in letters and digits.
        """
        return _object(self.shared, _PREFILL[self.kind] % lease.encode())

    def decode_body(self, kv_params: Any) -> bytes:
        """Return what a decode pod is asked; always streamed, with usage on each chunk."""
        kv_members = b"" if kv_params is None else _members({KV_PARAMS: kv_params})
        return _object(self.shared, self.decode_only, _DECODE, kv_members)


def parse_call(
    kind: EndpointKind,
    raw: bytes,
    settings: RouterSettings,
    *,
    salt: str | None = None,
    prefixes: PrefixMarks | None = None,
) -> Call:
    """Return the call in `raw`, or raise `ApiError` with a sentence for the client.

    `salt` is put before the client's own cache salt.
    """
    limits = settings.limits
    check_shape(raw, most_elements=limits.body_elements)
    body = _document(raw)
    _check_model(body.get("model"), settings)
    stream = _boolean(body, "stream")
    options = _stream_options(body, stream=stream)
    # Engines know the first name alone, so an alias is in force with no engine's restart.
    body = checked(body) | {"model": settings.models[0]}
    choices = max(_choices(body, "n", limits), _choices(body, "best_of", limits))
    max_output_tokens = _max_output_tokens(body)
    longest = settings.max_model_len
    prompt = (
        chat_prompt(body)
        if kind is EndpointKind.CHAT
        else completion_prompt(body, max_model_len=longest)
    )
    _check_choices(choices, prompt.prompts, limits)
    if longest is not None:
        _check_length(prompt, max_output_tokens, longest)
        if max_output_tokens is not None:
            max_output_tokens = min(max_output_tokens, longest)
    # One prefill answer names the KV blocks of one prompt, and they are freed by its first pull.
    split = (
        prompt.prompts == 1
        and choices == 1
        and max_output_tokens != 0
        and not (body.get("echo") and body.get("logprobs") is not None)
        and body.get("prompt_embeds") is None
        and body.get("tool_choice") in (None, "auto", "none")
    )
    streams = choices * prompt.prompts
    check_logprobs(
        body,
        stream=stream,
        answers=streams,
        max_output_tokens=max_output_tokens,
        max_model_len=longest,
    )
    if salt is not None:
        body["cache_salt"] = salt + _own_salt(body)
    shared = {name: value for name, value in body.items() if name not in _NOT_SHARED}
    return Call(
        kind=kind,
        shared=_members(shared),
        decode_only=_members({name: body[name] for name in _DECODE_ONLY if name in body}),
        stream=stream,
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("continuous_usage_stats")),
        token_ids=bool(body.get("return_token_ids")),
        prompt=prompt,
        max_output_tokens=max_output_tokens,
        choices=streams,
        split=split,
        marks=b"" if prefixes is None else prefixes.of(body, prompt),
    )


def _document(raw: bytes) -> dict[str, Any]:
    try:
        body = _READ.decode(raw.decode())
    except _NotFinite as found:
        raise _not_finite(str(found)) from None
    except (ValueError, RecursionError):
        raise ApiError(400, "The body is not valid JSON.", code="invalid_json") from None
    if not isinstance(body, dict):
        raise ApiError(400, "The body must be a JSON object.", code="invalid_json")
    return body


class _NotFinite(Exception):  # noqa: N818 - caught where it is raised
    """A constant that JSON has not."""


def _refuse_constant(name: str) -> Any:
    raise _NotFinite(name)


_READ = json.JSONDecoder(parse_constant=_refuse_constant)
_WRITE = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_WRITE_ASCII = json.JSONEncoder(allow_nan=False)


def _members(values: Mapping[str, Any]) -> bytes:
    """Return `values` as JSON without the braces."""
    try:
        try:
            return _WRITE.encode(values)[1:-1].encode()
        except UnicodeEncodeError:
            # Half a character: it can be escaped, and nothing else.
            return _WRITE_ASCII.encode(values)[1:-1].encode()
    except RecursionError:
        raise ApiError(400, "The body is nested too deeply.", code="invalid_json") from None
    except ValueError:
        # A number such as 1e999 is read as one.
        raise _not_finite("Infinity") from None


_KV_ASKED = {KV_PARAMS: {**REMOTE_DECODE, NAME_FIELD: "%b"}}
_PREFILL = {
    EndpointKind.COMPLETIONS: _members({"stream": False, "max_tokens": 1, **_KV_ASKED}),
    EndpointKind.CHAT: _members(
        {"stream": False, "max_tokens": 1, "max_completion_tokens": 1, **_KV_ASKED}
    ),
}
_DECODE = _members(
    {
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
)


def _object(*members: bytes) -> bytes:
    return b"{" + b", ".join(filter(None, members)) + b"}"


def _not_finite(name: str) -> ApiError:
    return ApiError(
        400,
        f"The body contains {name}, which JSON does not have; use a finite number such as 0.7.",
        code="invalid_json",
    )


def _check_model(model: Any, settings: RouterSettings) -> None:
    if not isinstance(model, str) or not model:
        raise ApiError(400, f"model must be a name, such as {settings.models[0]!r}.", param="model")
    if model not in settings.models:
        known = ", ".join(repr(name) for name in settings.models)
        raise ApiError(
            404,
            f"model must be a model of this pool ({known}); got {model[:100]!r}.",
            param="model",
            code="model_not_found",
        )


def _boolean(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise ApiError(400, f"{name} must be true or false.", param=name)
    return bool(value)


def _stream_options(body: Mapping[str, Any], *, stream: bool) -> Mapping[str, Any]:
    options = body.get("stream_options")
    if options is None:
        return {}
    if not isinstance(options, dict):
        raise ApiError(400, "stream_options must be an object.", param="stream_options")
    if not stream:
        raise ApiError(
            400,
            "stream_options needs stream: true; set both, or leave it out.",
            param="stream_options",
        )
    return options


def _choices(body: Mapping[str, Any], name: str, limits: LimitSettings) -> int:
    value = body.get(name)
    if value is None:
        return 1
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= limits.choices:
        raise ApiError(
            400, f"{name} must be a whole number from 1 to {limits.choices}.", param=name
        )
    return value


def _check_choices(choices: int, prompts: int, limits: LimitSettings) -> None:
    if choices * prompts > limits.choices:
        raise ApiError(
            400,
            f"prompt asks for {choices * prompts} answers ({prompts} prompts with {choices} each),"
            f" but at most {limits.choices} are allowed; send several requests.",
            param="prompt",
        )


def _max_output_tokens(body: Mapping[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ApiError(400, f"{name} must be a whole number, such as 256.", param=name)
        return value
    return None


def _own_salt(body: Mapping[str, Any]) -> str:
    own = body.get("cache_salt")
    if own is None:
        return ""
    if not isinstance(own, str) or not own:
        raise ApiError(400, "cache_salt must be text, such as a session ID.", param="cache_salt")
    return own


def _check_length(prompt: Prompt, max_output_tokens: int | None, max_model_len: int) -> None:
    """Refuse a prompt that leaves no room for an answer; engines cut a longer answer themselves."""
    tokens = prompt.exact_tokens
    if prompt.prompts > 1 or tokens is None:
        return
    if tokens + (max_output_tokens != 0) > max_model_len:
        raise ApiError(
            400,
            f"prompt has {tokens} tokens, but this model's maximum context length is"
            f" {max_model_len} tokens, including the answer; shorten it.",
            param="prompt",
            code="context_length_exceeded",
        )
