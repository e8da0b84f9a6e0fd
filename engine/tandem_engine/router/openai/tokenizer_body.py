"""Bodies of the endpoints that count or name tokens and make none."""

import json
from collections.abc import Mapping
from enum import StrEnum

from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.openai.call import check_model, read_object
from tandem_engine.router.openai.fields import Fields, checked
from tandem_engine.router.openai.messages_body import COUNTED

MOST_BYTES = 4 * 1024 * 1024
"""An engine's tokenizer works on a text for as long as it is, beside what it generates."""

_TEXT = """
model prompt messages add_special_tokens return_token_strs add_generation_prompt
continue_final_message chat_template_kwargs tools
"""


class TokenizerKind(StrEnum):
    """What the tokenizer of an engine is asked for."""

    TOKENIZE = "tokenize"
    DETOKENIZE = "detokenize"
    COUNT_TOKENS = "count_tokens"

    @property
    def path(self) -> str:
        """Return the path, the same at the router and at the engine."""
        return "/v1/messages/count_tokens" if self is TokenizerKind.COUNT_TOKENS else f"/{self}"


_FIELDS: Mapping[TokenizerKind, Fields] = {
    TokenizerKind.TOKENIZE: Fields(passed=frozenset(_TEXT.split()), dropped=frozenset()),
    TokenizerKind.DETOKENIZE: Fields(passed=frozenset(("model", "tokens")), dropped=frozenset()),
    TokenizerKind.COUNT_TOKENS: COUNTED,
}


def tokenizer_body(kind: TokenizerKind, raw: bytes, settings: RouterSettings) -> bytes:
    """Return what an engine is asked, or raise `ApiError` with a sentence for the client.

    The model may be left out, where engines let it be.
    """
    body = read_object(raw, settings.limits)
    if kind is TokenizerKind.COUNT_TOKENS or body.get("model") is not None:
        check_model(body.get("model"), settings)
    passed = checked(body, _FIELDS[kind]) | {"model": settings.models[0]}
    return json.dumps(passed).encode()
