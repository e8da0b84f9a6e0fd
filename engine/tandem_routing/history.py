"""A router's counts for each second: requests that arrived, and requests that ended.

The rows of all routers and of the simulator have the same meaning.
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tandem_routing.verdict import Cause, Outcome, Verdict

BUCKET_EDGES_TOKENS = (128, 512, 2048, 8192, 32768)
HISTORY_S = 1200
# How long a request that waits counts as overdue, once its TTFT bound has passed.
OVERDUE_S = 60.0


def prompt_bucket(tokens: int) -> int:
    """Return the index of the prompt-length bucket; an edge belongs to the bucket below it."""
    return bisect_left(BUCKET_EDGES_TOKENS, tokens)


def _by_bucket() -> list[int]:
    return [0] * (len(BUCKET_EDGES_TOKENS) + 1)


@dataclass(slots=True)
class SecondOfArrivals:
    """Requests that arrived in one second, by the bucket of their prompt."""

    requests: list[int] = field(default_factory=_by_bucket)
    tokens: list[int] = field(default_factory=_by_bucket)
    cached: list[int] = field(default_factory=_by_bucket)

    def add(self, tokens: int) -> None:
        """Count one request with a prompt of `tokens`."""
        bucket = prompt_bucket(tokens)
        self.requests[bucket] += 1
        self.tokens[bucket] += tokens

    def add_cached(self, tokens: int, *, cached: int) -> None:
        """Add the cached tokens of a counted request with a prompt of `tokens`."""
        self.cached[prompt_bucket(tokens)] += cached

    def take_back(self, tokens: int, *, cached: int = 0) -> None:
        """Remove one request, with the counts that it was added with.

        A clock that was set back may have restarted the second, so no count falls below zero.
        """
        bucket = prompt_bucket(tokens)
        self.requests[bucket] = max(0, self.requests[bucket] - 1)
        self.tokens[bucket] = max(0, self.tokens[bucket] - tokens)
        self.cached[bucket] = max(0, self.cached[bucket] - cached)


@dataclass(slots=True)
class Finished:
    """Requests that ended in some time; `gone` requests are in no other count.

    `echoes` are those of `blame` that waited in the router until long after their TTFT bound. They
    already counted as overdue, so their end is no news.
    """

    finished: int = 0
    good: int = 0
    late_ttft: int = 0
    late_tpot: int = 0
    failed: int = 0
    shed: int = 0
    gone: int = 0
    output_tokens: int = 0
    output_tokens_squared: int = 0
    blame: Counter[str] = field(default_factory=Counter)
    echoes: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict, cause: Cause | None, *, output_tokens: int) -> None:
        """Count one request."""
        outcome = verdict.outcome
        if outcome is Outcome.GONE:
            self.gone += 1
            return
        self.finished += 1
        self.good += outcome is Outcome.GOOD
        self.failed += outcome is Outcome.FAILED
        self.shed += outcome in (Outcome.SHED, Outcome.TOO_LATE)
        self.late_ttft += outcome in (Outcome.LATE_TTFT, Outcome.LATE_BOTH)
        self.late_tpot += outcome in (Outcome.LATE_TPOT, Outcome.LATE_BOTH)
        self.output_tokens += output_tokens
        self.output_tokens_squared += output_tokens * output_tokens
        if cause is not None:
            self.blame[cause.value] += 1
            # A request that waited for a wake never counted as overdue.
            told = cause is not Cause.WAKE and verdict.late_ttft
            if told and verdict.queued_s > verdict.ttft_bound_s + OVERDUE_S:
                self.echoes[cause.value] += 1

    def row(self) -> dict[str, Any]:
        """Return the counts by their names, as reports have them."""
        causes = ("blame", "echoes")
        row = {name: getattr(self, name) for name in self.__slots__ if name not in causes}
        row["blame"] = dict(self.blame)
        return {**row, "echoes": dict(self.echoes)} if self.echoes else row


def woken_token_s(last_s: float | None, *, received_s: float, token_s: float) -> float:
    """Return the first token of the newest wake, with a request that had waited for a wake.

    `last_s` is the value before. A request that came after it had waited for another wake.
    """
    return token_s if last_s is None or received_s > last_s else min(last_s, token_s)


RESULT_WINDOW_S = 120
"""Seconds that the report of each class, and of each tenant, covers."""


@dataclass(slots=True)
class ResultSecond:
    """Requests of one class or tenant that ended in one second, without `gone` requests.

    `limited` requests, which a limit of their tenant refused, are in no other count.
    """

    finished: int = 0
    good: int = 0
    too_late: int = 0
    shed: int = 0
    limited: int = 0
    output_tokens: int = 0
    good_output_tokens: int = 0

    def add(self, outcome: Outcome, *, output_tokens: int) -> None:
        """Count one request."""
        if outcome in (Outcome.GONE, Outcome.REFUSED):
            return
        good = outcome is Outcome.GOOD
        self.finished += 1
        self.good += good
        self.too_late += outcome is Outcome.TOO_LATE
        self.shed += outcome is Outcome.SHED
        self.output_tokens += output_tokens
        self.good_output_tokens += output_tokens if good else 0


@dataclass(slots=True)
class ResultHistory:
    """Recent results of each class, or of each tenant, by second."""

    _rows: dict[str, dict[int, ResultSecond]] = field(default_factory=dict)

    def add(self, name: str, outcome: Outcome, *, output_tokens: int, second: int) -> None:
        """Count one request that ended in a second."""
        self._row(name, second).add(outcome, output_tokens=output_tokens)

    def limit(self, name: str, *, second: int) -> None:
        """Count one request that a limit refused in a second."""
        self._row(name, second).limited += 1

    def _row(self, name: str, second: int) -> ResultSecond:
        rows = self._rows.setdefault(name, {})
        row = rows.get(second)
        if row is None:
            for past in [known for known in rows if known <= second - RESULT_WINDOW_S]:
                del rows[past]
            row = rows[second] = ResultSecond()
        return row

    def window(self, name: str, *, second: int) -> ResultSecond:
        """Return the sum over the `RESULT_WINDOW_S` seconds up to a second."""
        total = ResultSecond()
        for known, row in self._rows.get(name, {}).items():
            if second - RESULT_WINDOW_S < known <= second:
                for count in ResultSecond.__slots__:
                    setattr(total, count, getattr(total, count) + getattr(row, count))
        return total
