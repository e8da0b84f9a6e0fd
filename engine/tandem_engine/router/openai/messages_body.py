"""Bodies of Anthropic's `/v1/messages`: the fields that an engine may get."""

from tandem_engine.router.openai.fields import Fields

_ASKED = "model messages system tools tool_choice thinking output_config chat_template_kwargs"
_ANSWERED = """
max_tokens stop_sequences stream temperature top_k top_p cache_salt vllm_xargs
"""
_OF_CLIENTS_ALONE = "metadata service_tier cache_control context_management inference_geo"

FIELDS = Fields(
    passed=frozenset((*_ASKED.split(), *_ANSWERED.split())),
    dropped=frozenset(_OF_CLIENTS_ALONE.split()),
)

COUNTED = Fields(passed=frozenset(_ASKED.split()), dropped=FIELDS.dropped)
"""The fields of `/v1/messages/count_tokens`."""
