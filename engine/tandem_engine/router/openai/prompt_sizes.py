"""Estimates of prompt tokens before an engine has counted them, learned online."""

from tandem_engine.router.openai.prompts import Prompt
from tandem_routing.estimates import MOST_MOVE, Mean, moved

_DEFAULT_TOKENS_PER_BYTE = 0.25
_DEFAULT_TOKENS_PER_MEDIUM = 1024.0
_FIRST_BYTES = 64.0
_KEEP_BYTES = 0.98
# A prompt of a megabyte must not outweigh all that come after it.
_MOST_WEIGHT_BYTES = 4096
_LEAST_PER_BYTE, _MOST_PER_BYTE = 1 / 64, 2.0


class PromptSizes:
    """Estimated tokens per byte and per medium of a prompt.

    One unusual request changes neither by more than `MOST_MOVE`. No request moves them out of the
    possible range of a tokenizer.
    """

    def __init__(self) -> None:
        self._bytes = _FIRST_BYTES
        self._per_byte = _DEFAULT_TOKENS_PER_BYTE
        self._per_medium = Mean(value=_DEFAULT_TOKENS_PER_MEDIUM, most_move=MOST_MOVE)

    def learn(self, prompt: Prompt, *, tokens: int) -> None:
        """Learn from one exact count."""
        if not prompt.learnable:
            return
        if prompt.media:
            rest = tokens - prompt.size * self._per_byte
            self._per_medium.add(max(1.0, rest / prompt.media))
        elif prompt.size:
            weight = min(prompt.size, _MOST_WEIGHT_BYTES)
            per_byte = min(_MOST_PER_BYTE, max(_LEAST_PER_BYTE, tokens / prompt.size))
            before = _KEEP_BYTES * self._bytes
            self._bytes = before + weight
            fresh = (before * self._per_byte + weight * per_byte) / self._bytes
            self._per_byte = moved(self._per_byte, fresh, most=MOST_MOVE)

    def estimate(self, prompt: Prompt) -> int:
        """Return the expected tokens of a prompt, at least one."""
        text = prompt.size * self._per_byte
        return max(1, round(text + prompt.media * (self._per_medium.value or 0.0)))
