"""What a router writes down of a second: requests that came in it, and requests that ended in it.

The rows of all routers and of the simulator mean the same, whoever reads them.
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
    """Requests that came in one second, by the bucket of their prompt."""

    requests: list[int] = field(default_factory=_by_bucket)
    tokens: list[int] = field(default_factory=_by_bucket)
    cached: int = 0

    def add(self, tokens: int) -> None:
        """Count one request with a prompt of `tokens`."""
        bucket = prompt_bucket(tokens)
        self.requests[bucket] += 1
        self.tokens[bucket] += tokens

    def take_back(self, tokens: int) -> None:
        """Count one request less, as it was counted."""
        bucket = prompt_bucket(tokens)
        self.requests[bucket] -= 1
        self.tokens[bucket] -= tokens


@dataclass(slots=True)
class Finished:
    """Requests that ended in some time; `gone` ones are in none of the other counts.

    `echoes` are those of `blame` that waited in the router until long after their TTFT bound. They
    counted as overdue there: their end says nothing new.
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
        self.shed += outcome is Outcome.SHED
        self.late_ttft += outcome in (Outcome.LATE_TTFT, Outcome.LATE_BOTH)
        self.late_tpot += outcome in (Outcome.LATE_TPOT, Outcome.LATE_BOTH)
        self.output_tokens += output_tokens
        self.output_tokens_squared += output_tokens * output_tokens
        if cause is not None:
            self.blame[cause.value] += 1
            if verdict.late_ttft and verdict.queued_s > verdict.ttft_bound_s + OVERDUE_S:
                self.echoes[cause.value] += 1

    def row(self) -> dict[str, Any]:
        """Return the counts by their names, as reports have them."""
        causes = ("blame", "echoes")
        row = {name: getattr(self, name) for name in self.__slots__ if name not in causes}
        row["blame"] = dict(self.blame)
        return {**row, "echoes": dict(self.echoes)} if self.echoes else row
