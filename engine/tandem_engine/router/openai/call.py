"""A client's request: checked once, then kept as the bytes for prefill and decode pods.

The parsed objects are dropped at once, because they take many times the memory of the text.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tandem_contracts.router_settings import LimitSettings, RouterSettings
from tandem_engine.router.openai.body_shapes import SHAPES
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.openai.fields import checked
from tandem_engine.router.openai.json_cost import check_shape
from tandem_engine.router.openai.kv_fields import KV_PARAMS, NAME_FIELD, REMOTE_DECODE
from tandem_engine.router.openai.logprobs import check_logprobs
from tandem_engine.router.openai.prefixes import PrefixMarks
from tandem_engine.router.openai.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Call:
    """One accepted request.

    Attributes:
        shared: members of the JSON object that both legs get, without braces.
        decode_only: members that only the decode pod gets.
        prompt: its prompt.
        choices: of all prompts together.
        max_output_tokens: the asked maximum, at most what the model can make; `None`: no bound.
        split: whether prefill and decode can run on different pods.
        model: the model name in the request.
        service_tier: the field of OpenAI's API in the request.
        marks: marks that show which other prompts begin in the same way.
        mark_share: the share of the prompt that one mark stands for.
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
    model: str = ""
    service_tier: str | None = None
    marks: bytes = field(default=b"", repr=False)
    mark_share: float = 0.0

    def prefill_body(self, lease: str) -> bytes:
        """Return the body for a prefill pod, which asks for KV blocks and one token.

        `lease` is the name by which the blocks can be freed, in letters and digits.
        """
        return _object(self.shared, _PREFILL[self.kind] % lease.encode())

    def decode_body(self, kv_params: Any) -> bytes:
        """Return the body for a decode pod; it always asks for a stream, with all usage."""
        kv_members = b"" if kv_params is None else _members({KV_PARAMS: kv_params})
        return _object(self.shared, self.decode_only, _DECODE[self.kind], kv_members)


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
    limits, shape = settings.limits, SHAPES[kind]
    body = read_object(raw, limits)
    model, tier = body.get("model"), body.get("service_tier")
    check_model(model, settings)
    stream = _boolean(body, "stream")
    options = _stream_options(body, stream=stream) if shape.has_stream_options else {}
    # Engines know the first name alone, so an alias is in force with no engine's restart.
    body = checked(body, shape.fields) | {"model": settings.models[0]}
    choices = max(_choices(body, "n", limits), _choices(body, "best_of", limits))
    max_output_tokens = _max_output_tokens(body, shape.output_bounds)
    longest = settings.max_model_len
    shape.check(body)
    prompt = shape.prompt(body, longest)
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
        and _tool_choice(body) in (None, "auto", "none")
    )
    streams = choices * prompt.prompts
    check_logprobs(
        body,
        stream=stream and shape.has_stream_options,
        answers=streams,
        max_output_tokens=max_output_tokens,
        max_model_len=longest,
        bound_by=shape.output_bounds[-1],
    )
    if salt is not None:
        body["cache_salt"] = salt + _own_salt(body)
    marks, mark_share = (b"", 0.0) if prefixes is None else prefixes.of(body, prompt)
    not_shared = _NOT_SHARED[kind]
    shared = {name: value for name, value in body.items() if name not in not_shared}
    return Call(
        kind=kind,
        shared=_members(shared),
        decode_only=_members({name: body[name] for name in shape.decode_only if name in body}),
        stream=stream,
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("continuous_usage_stats")),
        token_ids=bool(body.get("return_token_ids")),
        prompt=prompt,
        max_output_tokens=max_output_tokens,
        choices=streams,
        split=split,
        model=model if isinstance(model, str) else "",
        service_tier=tier if isinstance(tier, str) else None,
        marks=marks,
        mark_share=mark_share,
    )


def read_object(raw: bytes, limits: LimitSettings) -> dict[str, Any]:
    """Return the JSON object in a body; raises `ApiError` for any other, or for a too large one."""
    check_shape(raw, most_elements=limits.body_elements)
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
    """A constant that JSON does not have."""


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
_NOT_SHARED = {
    kind: frozenset((*shape.decode_only, *shape.decode)) for kind, shape in SHAPES.items()
}
_PREFILL = {kind: _members({**shape.prefill, **_KV_ASKED}) for kind, shape in SHAPES.items()}
_DECODE = {kind: _members(shape.decode) for kind, shape in SHAPES.items()}


def _object(*members: bytes) -> bytes:
    return b"{" + b", ".join(filter(None, members)) + b"}"


def _not_finite(name: str) -> ApiError:
    return ApiError(
        400,
        f"The body contains {name}, which JSON does not have; use a finite number such as 0.7.",
        code="invalid_json",
    )


def check_model(model: Any, settings: RouterSettings) -> None:
    """Raise `ApiError` for a name that is not a model of the pool."""
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


def _max_output_tokens(body: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ApiError(400, f"{name} must be a whole number, such as 256.", param=name)
        return value
    return None


def _tool_choice(body: Mapping[str, Any]) -> Any:
    """Return the choice as one word, if it is one: Anthropic's is an object with a type."""
    choice = body.get("tool_choice")
    return choice["type"] if isinstance(choice, dict) and "type" in choice else choice


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
