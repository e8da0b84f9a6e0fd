"""Bodies of OpenAI's `/v1/responses`: the fields that an engine may get.

The router keeps no answer, so every request carries its whole conversation.
"""

from collections.abc import Mapping
from typing import Any

from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.openai.fields import Fields

_OPENAI = """
model input instructions max_output_tokens max_tool_calls metadata parallel_tool_calls reasoning
include service_tier stream temperature text tool_choice tools top_logprobs top_p truncation user
"""
_VLLM = """
logit_bias include_reasoning top_k min_p skip_special_tokens include_stop_str_in_output
presence_penalty frequency_penalty repetition_penalty seed stop stop_token_ids ignore_eos
structured_outputs cache_salt vllm_xargs chat_template_kwargs
"""
_OF_CLIENTS_ALONE = """
store stream_options safety_identifier prompt_cache_key prompt_cache_retention
"""

FIELDS = Fields(
    passed=frozenset((_OPENAI + _VLLM).split()), dropped=frozenset(_OF_CLIENTS_ALONE.split())
)

_TOOLS = ("function", "custom")


def check(body: Mapping[str, Any]) -> None:
    """Raise `ApiError` for a tool that an engine would have to call by itself."""
    tools = body.get("tools")
    if not isinstance(tools, list):
        return
    for index, tool in enumerate(tools):
        if isinstance(tool, dict) and tool.get("type") not in _TOOLS:
            raise ApiError(
                400,
                "tools must be of type function or custom, because your program calls them and no"
                f" engine does; number {index + 1} is not.",
                param=f"tools[{index}].type",
                code="unsupported_parameter",
            )
