"""Messages between routers of a pool: which prefill pod computed which prompt.

A message has only marks, and the tokens between two marks. A lost message only costs the time to
compute a prompt again. So each is sent once, and nothing waits for it.
"""

import base64
import json
import re
from array import array
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Base64Bytes, Field, ValidationError

from tandem_engine.router.openai.prefixes import MARK_BYTES, MOST_CHUNKS
from tandem_engine.router.peers.notice import POD_NAME, MessagePart, NoticeError, not_valid
from tandem_routing.prefix_index import Prefix

COMPUTED_PATH = "/computed"
MOST_MESSAGE_BYTES = 512 * 1024
_MOST_IN_A_MESSAGE = 4096
_MOST_TOKENS = 65_536
_TOKENS_DIGITS = 3
# What is not a mark: the pod's name, and what JSON takes besides.
_BESIDES_BYTES = 320


@dataclass(frozen=True, slots=True)
class Computed:
    """A prompt that a prefill pod computed."""

    pod: str
    prefix: Prefix


class _Computed(MessagePart):
    pod: Annotated[str, Field(pattern=POD_NAME)]
    tokens: Annotated[float, Field(gt=0, le=_MOST_TOKENS, allow_inf_nan=False)]
    marks: Annotated[Base64Bytes, Field(min_length=MARK_BYTES, max_length=MOST_CHUNKS * MARK_BYTES)]


class _Document(MessagePart):
    schema_version: Literal[1] = Field(alias="schema")
    computed: Annotated[list[_Computed], Field(max_length=_MOST_IN_A_MESSAGE)]


def document_of(prompts: Iterable[Computed]) -> bytes:
    """Return the prompts as JSON."""
    rows = [
        {
            "pod": each.pod,
            "tokens": round(each.prefix.tokens, _TOKENS_DIGITS),
            "marks": base64.b64encode(array("Q", each.prefix.marks).tobytes()).decode(),
        }
        for each in prompts
    ]
    return json.dumps({"schema": 1, "computed": rows}).encode()


def parse_computed(raw: bytes) -> list[Computed]:
    """Return the prompts in `raw`, or raise `NoticeError` with one sentence."""
    try:
        document = _Document.model_validate_json(raw)
        return [
            Computed(each.pod, Prefix(array("Q", each.marks), each.tokens))
            for each in document.computed
        ]
    except ValidationError as error:
        raise not_valid(error) from error
    except ValueError as error:
        raise NoticeError(f"computed.marks: each mark has {MARK_BYTES} bytes") from error


class News:
    """Prompts that this router has yet to send: the newest, as many as one message takes."""

    def __init__(self) -> None:
        self._prompts: deque[Computed] = deque()
        self._bytes = 0

    def add(self, pod: str, prefix: Prefix) -> None:
        """Add a prompt that `pod` computed.

        Other routers refuse a whole message, so a prompt that they would refuse is left out.
        """
        if not _is_tellable(pod, prefix):
            return
        self._prompts.append(Computed(pod, prefix))
        self._bytes += _size(prefix)
        while self._bytes > MOST_MESSAGE_BYTES or len(self._prompts) > _MOST_IN_A_MESSAGE:
            self._bytes -= _size(self._prompts.popleft().prefix)

    def take(self) -> bytes | None:
        """Return the next message and forget its content; `None`: there is nothing to tell."""
        message = document_of(self._prompts) if self._prompts else None
        self._prompts.clear()
        self._bytes = 0
        return message


def _is_tellable(pod: str, prefix: Prefix) -> bool:
    tokens = round(prefix.tokens, _TOKENS_DIGITS)
    whole = 0 < tokens <= _MOST_TOKENS and 0 < len(prefix.marks) <= MOST_CHUNKS
    return whole and re.fullmatch(POD_NAME, pod) is not None


def _size(prefix: Prefix) -> int:
    return _BESIDES_BYTES + 11 * len(prefix.marks)
