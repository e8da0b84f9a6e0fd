"""The fields of a body that reach an engine: OpenAI's, and those of vLLM that a client may use.

The list is closed. Some fields of a body control an engine: the source of KV blocks, the priority,
the id. Only the router sets these.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tandem_engine.router.openai.errors import ApiError

_OPENAI = """
model prompt messages stream stream_options max_tokens max_completion_tokens n best_of temperature
top_p frequency_penalty presence_penalty logit_bias logprobs top_logprobs seed stop suffix echo
response_format tools tool_choice parallel_tool_calls reasoning_effort
"""
_VLLM_SAMPLING = """
top_k min_p repetition_penalty length_penalty stop_token_ids include_stop_str_in_output ignore_eos
min_tokens skip_special_tokens spaces_between_special_tokens allowed_token_ids bad_words
logprob_token_ids repetition_detection thinking_token_budget structured_outputs
"""
_VLLM_PROMPT_AND_ANSWER = """
prompt_embeds add_special_tokens truncate_prompt_tokens truncation_side documents
chat_template_kwargs add_generation_prompt continue_final_message include_reasoning
return_tokens_as_token_ids return_token_ids return_prompt_text cache_salt vllm_xargs
"""
_OF_CLIENTS_ALONE = """
user metadata store service_tier safety_identifier prompt_cache_key prompt_cache_retention verbosity
modalities
"""

REFUSED: Mapping[str, str] = {
    "kv_transfer_params": "the router alone sets the source of KV blocks",
    "ec_transfer_params": "the router alone sets the source of encoder outputs",
    "request_id": "its place is the header X-Request-Id",
    "priority": "the router orders requests by their deadlines",
    "session_id": "the router alone decides what an engine keeps",
    "stream_interval": "the router forwards each token at once",
    "watermarking": "it is a setting of the engine",
    "chat_template": "the engine uses the template of the model",
    "media_io_kwargs": "it is a setting of the engine",
    "mm_processor_kwargs": "it is a setting of the engine",
    "prompt_logprobs": "the engine streams answers token by token",
    "use_beam_search": "the engine streams answers token by token",
    "background": "the router keeps no answer",
    "previous_response_id": "the router keeps no answer: send the earlier items again in input",
    "conversation": "the router keeps no conversation: send the earlier items again in input",
    "mcp_servers": "no engine calls other servers",
}
"""Fields that control an engine or are not available here, and why."""

_NAME_BYTES = 100


@dataclass(frozen=True, slots=True)
class Fields:
    """The closed list of one endpoint's fields.

    Attributes:
        passed: fields that an engine gets as the client wrote them.
        dropped: fields of clients that no engine uses.
    """

    passed: frozenset[str]
    dropped: frozenset[str]


CHUNKED = Fields(
    passed=frozenset((_OPENAI + _VLLM_SAMPLING + _VLLM_PROMPT_AND_ANSWER).split()),
    dropped=frozenset(_OF_CLIENTS_ALONE.split()),
)
"""The fields of completions and chat."""


def checked(body: Mapping[str, Any], fields: Fields = CHUNKED) -> dict[str, Any]:
    """Return the fields of `body` for an engine; raises `ApiError` that names the first bad one.

    A field that is null or false asks for nothing, so it is accepted.
    """
    known = fields.passed
    passed = {name: value for name, value in body.items() if name in known}
    if len(passed) < len(body):
        for name, value in body.items():
            if name not in passed and name not in fields.dropped and value not in (None, False):
                raise _refused(name)
    extra = passed.get("vllm_xargs")
    if isinstance(extra, dict):
        for name in extra:
            # The engine keeps its own orders in the same place as these.
            if name in REFUSED or name.startswith(("kv_", "ec_")):
                raise _refused(name, within="vllm_xargs.")
    template = passed.get("chat_template_kwargs")
    if isinstance(template, dict) and "chat_template" in template:
        raise _refused("chat_template", within="chat_template_kwargs.")
    return passed


def _refused(name: str, *, within: str = "") -> ApiError:
    shown = within + name[:_NAME_BYTES]
    why = REFUSED.get(name)
    return ApiError(
        400,
        f"{shown} is not available here, because {why}; leave it out."
        if why is not None
        else f"{shown} is not a supported field; leave it out.",
        param=shown,
        code="unsupported_parameter",
    )
