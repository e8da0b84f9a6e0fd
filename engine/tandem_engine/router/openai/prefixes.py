"""Marks that show which prompts begin alike, without revealing their content.

A prompt is cut into chunks. The mark of a chunk is a keyed hash of the prompt up to its end. So two
prompts share as many marks as they share chunks from their first byte on. The key never leaves the
process. Routers with the pool's engine key have the same key, so their marks agree.
"""

import hashlib
import os
from array import array
from collections.abc import Mapping
from typing import Any

from tandem_engine.router.openai.prompts import Prompt

MARK_BYTES = 8
CHUNK_BYTES = 1024
"""About 256 tokens of text; as many token ids, at four bytes each."""
MOST_CHUNKS = 512
_BEFORE_MESSAGES = ("tools", "documents", "chat_template_kwargs")
_SAID = ("system", "instructions", "messages", "input")
# What keeps caches apart, and what a template may say at the beginning of a prompt.
_APART = (
    *("model", "cache_salt", "add_special_tokens"),
    *("tool_choice", "reasoning_effort", "reasoning", "thinking", "output_config"),
)


class PrefixMarks:
    """Makes the marks of prompts."""

    def __init__(self, key: str | None) -> None:
        secret = os.urandom(32) if key is None else key.encode()
        self._key = hashlib.sha256(b"prefix marks\0" + secret).digest()

    def of(self, body: Mapping[str, Any], prompt: Prompt) -> tuple[bytes, float]:
        """Return one mark for each of the first whole chunks, and the share of one chunk.

        There are no marks if bytes do not show the shared cache: media, several prompts, a prompt
        that engines cut.
        """
        told = prompt.prompts == 1 and not prompt.media and prompt.learnable
        if not told or body.get("prompt_embeds") is not None:
            return b"", 0.0
        try:
            text = _rendered(body)
        except OverflowError:
            return b"", 0.0
        if len(text) < CHUNK_BYTES:
            return b"", 0.0
        marks = bytearray()
        mark = self._hash(_texts([body.get(name) for name in _APART]))
        ends = range(CHUNK_BYTES, min(len(text), MOST_CHUNKS * CHUNK_BYTES) + 1, CHUNK_BYTES)
        for end in ends:
            mark = self._hash(mark + text[end - CHUNK_BYTES : end])
            marks += mark
        return bytes(marks), CHUNK_BYTES / len(text)

    def _hash(self, data: bytes) -> bytes:
        # What is cut off is what it would take to go on from it without the key.
        return hashlib.sha256(self._key + data).digest()[:MARK_BYTES]


def _rendered(body: Mapping[str, Any]) -> bytes:
    """Return the parts of a body that an engine reads, in its order."""
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return prompt.encode(errors="replace")
    if isinstance(prompt, list):
        ids = prompt[0] if prompt and isinstance(prompt[0], list) else prompt
        return array("I", ids).tobytes() if ids and isinstance(ids[0], int) else b""
    before = (body.get(name) for name in _BEFORE_MESSAGES)
    return _texts([*before, *(body.get(name) for name in _SAID if name in body)])


def _texts(value: Any) -> bytes:
    """Return all strings in `value`, names included, in their order."""
    parts: list[bytes] = []
    _collect(value, parts)
    return b"\0".join(parts)


def _collect(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, str):
        parts.append(value.encode(errors="replace"))
    elif isinstance(value, dict):
        for name, one in value.items():
            parts.append(name.encode(errors="replace"))
            _collect(one, parts)
    elif isinstance(value, list):
        for one in value:
            _collect(one, parts)
    elif value is not None:
        parts.append(repr(value).encode())
