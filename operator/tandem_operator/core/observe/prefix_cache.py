"""The share of prompt tokens that prefix caches serve now, by prompt length.

Long prompts often repeat what was sent before, and short ones do not. So each length has its own.

The cached tokens of a request are known only after its prompt was computed. Until then, the router
counts none for it. So a window gives only a range: the waiting prompts may hit or not.
"""

from collections.abc import Collection, Iterable, Mapping
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


def cached_shares(
    arrivals: Arrivals, *, first_s: int, moving: bool = False, tuning: Tuning = TUNING
) -> Mapping[int, float]:
    """Return the cached share of prompts by bucket, since `first_s`, or recently if it changed.

    A collapse of hits multiplies the work at once, so Tandem must see it before a whole window has
    passed. A few seconds are too short to measure each length, so all lengths change together.
    While caches are `moving` from a pod that left to others, recent hits say nothing.
    """
    seconds = {at: row for at, row in arrivals.seconds.items() if at >= first_s}
    prompt, cached = _sums(seconds.values())
    if prompt <= 0.0 or cached <= 0.0:
        return {}
    requests = sum(group.requests for row in seconds.values() for group in row.groups)
    unanswered = arrivals.queued_prompt_tokens + arrivals.prefill_requests * prompt / requests
    shares = _by_bucket(seconds.values(), cached / prompt, tuning=tuning)
    for window_s in () if moving else tuning.observe.cached_windows_s:
        recent = [row for at, row in seconds.items() if at >= arrivals.end_s - window_s]
        prompt, cached = _sums(recent)
        if prompt <= 0.0:
            break
        window = _Window(prompt, cached, unanswered)
        usual = sum(_expected(row, shares) for row in recent) / prompt
        squares = sum((row.cached_tokens - _expected(row, shares)) ** 2 for row in seconds.values())
        share = believed(
            min(max(usual, window.least), window.most),
            usual,
            variance=squares / len(seconds) * len(recent) / prompt**2,
            tuning=tuning,
        )
        shares = _moved(shares, usual, share)
    most = tuning.observe.most_cached_share
    return {bucket: min(most, share) for bucket, share in shares.items()}


def _by_bucket(
    rows: Iterable[Second], overall: float, *, tuning: Tuning = TUNING
) -> dict[int, float]:
    """Return each bucket's share of cached tokens, near the overall one if it has few requests."""
    prior = tuning.observe.cached_prior_requests
    sums: dict[int, tuple[float, float, float]] = {}
    for row in rows:
        for group in row.groups:
            requests, prompt, cached = sums.get(group.bucket, (0.0, 0.0, 0.0))
            sums[group.bucket] = (
                requests + group.requests,
                prompt + group.requests * group.prompt_tokens,
                cached + group.cached_tokens,
            )
    return {
        bucket: (cached / max(prompt, 1e-9) * requests + prior * overall) / (requests + prior)
        for bucket, (requests, prompt, cached) in sums.items()
    }


def _moved(shares: dict[int, float], mean: float, to: float) -> dict[int, float]:
    """Return the shares of which prompts have the mean `to`, if they had the mean `mean`.

    If hits become fewer, each length loses the same part of its hits; else of its misses.
    """
    if to < mean:
        return {bucket: share * to / mean for bucket, share in shares.items()}
    if to > mean:
        left = (1.0 - to) / (1.0 - mean)
        return {bucket: 1.0 - (1.0 - share) * left for bucket, share in shares.items()}
    return shares


def _expected(row: Second, shares: Mapping[int, float]) -> float:
    return sum([g.requests * g.prompt_tokens * shares[g.bucket] for g in row.groups])


def _sums(rows: Collection[Second]) -> tuple[float, float]:
    return sum(row.prompt_tokens for row in rows), sum(row.cached_tokens for row in rows)
