"""The share of prompt tokens that prefix caches serve now.

The cached tokens of a request are known only after its prompt was computed. Until then, the router
counts none for it. So a window gives only a range: the waiting prompts may hit or not.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tandem_operator.core.observe.arrivals import Arrivals, Second
from tandem_operator.core.statistics import believed
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class _Window:
    """Prompt tokens that arrived, the cached ones, and those of prompts not computed yet."""

    prompt: float
    cached: float
    unanswered: float

    @property
    def least(self) -> float:
        """Return the share if no waiting prompt will hit."""
        return self._share(self.prompt)

    @property
    def most(self) -> float:
        """Return the share if all waiting prompts belong to this window."""
        return self._share(self.prompt - self.unanswered)

    def _share(self, answered: float) -> float:
        return self.cached / max(self.cached, answered, 1e-9)


def cached_share(
    arrivals: Arrivals, *, first_s: int, moving: bool = False, tuning: Tuning = TUNING
) -> float:
    """Return the cached share of prompt tokens since `first_s`, or recently if it changed.

    A collapse of hits multiplies the work at once, so Tandem must see it before a whole window has
    passed. While caches are `moving` from a pod that left to others, recent hits say nothing.
    """
    seconds = {at: row for at, row in arrivals.seconds.items() if at >= first_s}
    prompt, cached = _sums(seconds.values())
    if prompt <= 0.0 or cached <= 0.0:
        return 0.0
    requests = sum(group.requests for row in seconds.values() for group in row.groups)
    unanswered = arrivals.queued_prompt_tokens + arrivals.prefill_requests * prompt / requests
    share = cached / prompt
    for window_s in () if moving else tuning.observe.cached_windows_s:
        recent = [row for at, row in seconds.items() if at >= arrivals.end_s - window_s]
        prompt, cached = _sums(recent)
        if prompt <= 0.0:
            break
        window = _Window(prompt, cached, unanswered)
        squares = sum((row.cached_tokens - share * _prompt(row)) ** 2 for row in seconds.values())
        share = believed(
            min(max(share, window.least), window.most),
            share,
            variance=squares / len(seconds) * len(recent) / prompt**2,
            tuning=tuning,
        )
    return min(tuning.observe.most_cached_share, share)


def _sums(rows: Iterable[Second]) -> tuple[float, float]:
    pairs = [(_prompt(row), row.cached_tokens) for row in rows]
    return sum(prompt for prompt, _ in pairs), sum(cached for _, cached in pairs)


def _prompt(row: Second) -> float:
    return sum(group.requests * group.prompt_tokens for group in row.groups)
