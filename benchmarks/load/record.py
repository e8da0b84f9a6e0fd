"""The record of each request as its client saw it, and the figures made from many records."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol, Self


class Outcome(StrEnum):
    """The way in which a request ended for its client."""

    FINISHED = "finished"
    FAILED = "failed"
    SHED = "shed"


class Bounds(Protocol):
    """The latency part of an SLO, as `tandem_operator.core.spec.Slo` has it."""

    @property
    def tpot_s(self) -> float:
        """Return the bound on the time per output token."""

    def ttft_bound_s(self, prompt_tokens: float) -> float:
        """Return the bound on the time to the first token of a prompt of this length."""


@dataclass(frozen=True, slots=True)
class Record:
    """One request as its client saw it.

    Attributes:
        sent_s: epoch seconds at which the request was sent.
        late_s: how long after its planned moment that was: the generator's own lag.
        ttft_s: request sent -> first generated token; `None` if none came.
        tpot_s: (last token - first) / (output tokens - 1); `None` below two tokens.
        why: the error in one line, for requests that did not finish.
        token_ids: the tokens that came, for requests that wanted them.
    """

    request_id: str
    traffic: str
    sent_s: float
    late_s: float
    elapsed_s: float
    prompt_tokens: int
    output_tokens: int
    outcome: Outcome
    ttft_s: float | None = None
    tpot_s: float | None = None
    status: int | None = None
    why: str | None = None
    token_ids: tuple[int, ...] | None = None

    @property
    def ended_s(self) -> float:
        """Return epoch seconds at which the request ended, well or not."""
        return self.sent_s + self.elapsed_s

    def is_good(self, bounds: Bounds) -> bool:
        """Return whether the request finished inside both bounds."""
        return (
            self.outcome is Outcome.FINISHED
            and self.ttft_s is not None
            and self.ttft_s <= bounds.ttft_bound_s(self.prompt_tokens)
            and (self.tpot_s is None or self.tpot_s <= bounds.tpot_s)
        )

    def to_json(self) -> str:
        """Return one line of a record file."""
        fields = asdict(self)
        if self.token_ids is None:
            del fields["token_ids"]
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Read back what `to_json` wrote."""
        fields = json.loads(line)
        if fields.get("token_ids") is not None:
            fields["token_ids"] = tuple(fields["token_ids"])
        return cls(**{**fields, "outcome": Outcome(fields["outcome"])})


def read_records(path: Path) -> list[Record]:
    """Return all records of a file, in the order in which the requests ended."""
    return [Record.from_json(line) for line in path.read_text().splitlines() if line.strip()]


def quantile(values: Iterable[float], share: float) -> float | None:
    """Return the linear quantile of `values`, `None` of none at all."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclass(frozen=True, slots=True)
class Tally:
    """Many records in figures; latencies are those of requests that had them."""

    requests: int
    good: int
    failed: int
    shed: int
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    tpot_p50_s: float | None
    tpot_p95_s: float | None
    why: dict[str, int]

    @property
    def attainment(self) -> float | None:
        """Return good requests per request; unknown while there is none."""
        return self.good / self.requests if self.requests else None


def tally(judged: Sequence[tuple[Record, Bounds]]) -> Tally:
    """Count records, each against the bounds that were in force for it."""
    records = [record for record, _ in judged]
    ttft = [record.ttft_s for record in records if record.ttft_s is not None]
    tpot = [record.tpot_s for record in records if record.tpot_s is not None]
    return Tally(
        requests=len(records),
        good=sum(record.is_good(bounds) for record, bounds in judged),
        failed=sum(record.outcome is Outcome.FAILED for record in records),
        shed=sum(record.outcome is Outcome.SHED for record in records),
        ttft_p50_s=quantile(ttft, 0.5),
        ttft_p95_s=quantile(ttft, 0.95),
        tpot_p50_s=quantile(tpot, 0.5),
        tpot_p95_s=quantile(tpot, 0.95),
        why=dict(Counter(record.why for record in records if record.why)),
    )
