"""The answer of a prefill pod: its KV parameters, and the tokens of the prompt."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.kv_fields import KV_PARAMS
from tandem_engine.router.openai.messages_stream import MessagesMeaning
from tandem_engine.router.openai.responses_stream import ResponsesMeaning
from tandem_engine.router.openai.sse import prompt_usage


@dataclass(frozen=True, slots=True)
class PrefillAnswer:
    """The answer of a prefill pod; its KV parameters go to the decode pod verbatim.

    Attributes:
        complete: whether it made its one token and would continue: only then there must be blocks.
    """

    kv_params: Any
    prompt_tokens: int | None
    cached_tokens: int | None
    complete: bool


def read_prefill_answer(kind: EndpointKind, raw: bytes) -> PrefillAnswer:
    """Return the answer in the JSON of `raw`; raises one of `sse.SHAPE_ERRORS`."""
    document = _READ.decode(raw.decode())
    prompt_tokens, cached_tokens = _USAGES[kind](document.get("usage") or {})
    return PrefillAnswer(
        document.get(KV_PARAMS), prompt_tokens, cached_tokens, _was_cut(kind, document)
    )


def _finite(number: str) -> float:
    """Return a number that a body to a decode pod can hold."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is no number of JSON")
    return value


_READ = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


def _was_cut(kind: EndpointKind, document: dict[str, Any]) -> bool:
    if kind is EndpointKind.RESPONSES:
        return document.get("status") == "incomplete"
    if kind is EndpointKind.MESSAGES:
        return document.get("stop_reason") == "max_tokens"
    choices: Any = document.get("choices") or ({},)
    return bool(choices[0].get("finish_reason") == "length")


_USAGES: Mapping[EndpointKind, Callable[[dict[str, Any]], tuple[int | None, int | None]]] = {
    EndpointKind.COMPLETIONS: prompt_usage,
    EndpointKind.CHAT: prompt_usage,
    EndpointKind.RESPONSES: ResponsesMeaning().prompt_tokens,
    EndpointKind.MESSAGES: MessagesMeaning().prompt_tokens,
}
