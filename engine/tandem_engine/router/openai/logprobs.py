"""Limits on the logprobs of a request: of one step, of a stream, of one document.

One step of an engine is one event for each answer. Engine and router hold each event as a whole.
"""

from collections.abc import Mapping
from typing import Any

from tandem_engine.router.openai.errors import ApiError

_MOST_AT_ONCE = 2048
_MOST_STREAMED = 67_108_864
# Of an answer that is put together here before it is sent.
_MOST_IN_A_DOCUMENT = 262_144
_USUAL_TOKENS = 4096
# No stream makes more within the time that a request has.
_LONGEST_ANSWER = 131_072
_BEYOND_ALL_SENSE = 10**9


def check_logprobs(
    body: Mapping[str, Any],
    *,
    stream: bool,
    answers: int,
    max_output_tokens: int | None,
    max_model_len: int | None,
    bound_by: str = "max_tokens",
) -> None:
    """Raise `ApiError` for more logprobs than router and engine should hold or send.

    `bound_by` is the field that bounds the tokens of an answer. `stream` says whether each token's
    logprobs are sent alone.
    """
    per_token, field = _per_token(body)
    if per_token == 0:
        return
    at_once = answers * per_token
    if at_once > _MOST_AT_ONCE:
        raise _too_wide(field, at_once, most=_MOST_AT_ONCE // answers - 1)
    if stream:
        usual, most = min(max_model_len or _USUAL_TOKENS, _LONGEST_ANSWER), _MOST_STREAMED
    else:
        usual, most = _USUAL_TOKENS, _MOST_IN_A_DOCUMENT
    tokens = usual if max_output_tokens is None else min(max_output_tokens, _BEYOND_ALL_SENSE)
    if at_once * tokens <= most:
        return
    fewer = f"set {bound_by} to {most // at_once} or less"
    raise ApiError(
        400,
        f"{field} asks for {at_once * tokens} logprobs, but the limit is {most}; {fewer}"
        + ("." if stream or bound_by != "max_tokens" else ", or use stream: true."),
        param=field,
    )


def _too_wide(field: str, at_once: int, *, most: int) -> ApiError:
    instead = f"set {field} to {most} or less" if most > 0 else "ask for fewer answers"
    return ApiError(
        400,
        f"{field} asks for {at_once} logprobs a token over all answers, but the limit is"
        f" {_MOST_AT_ONCE}; {instead}.",
        param=field,
    )


def _per_token(body: Mapping[str, Any]) -> tuple[int, str]:
    """Return the logprobs per token of an answer, its own included, and the field that asks."""
    most, by = 0, "logprobs"
    for name in ("logprobs", "top_logprobs"):
        value = body.get(name)
        if value is None or value is False:
            continue
        if not isinstance(value, int) or value < 0:
            raise ApiError(400, f"{name} must be a number of at least 0, such as 5.", param=name)
        most, by = max((most, by), (min(value, _BEYOND_ALL_SENSE) + 1, name))
    chosen = body.get("logprob_token_ids")
    if isinstance(chosen, list):
        most, by = max((most, by), (len(chosen) + 1, "logprob_token_ids"))
    return most, by
