"""Merge the routers' reports into one history of whole seconds, in which a gap stays unknown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, sqrt
from typing import NamedTuple

from tandem_operator.core.observation import FinishedSecond, RouterReport
from tandem_operator.core.tuning.tuning import TUNING, Tuning

HISTORY_S = 1200
GROUPS_S = 240
MOST_PER_SECOND = 10**6
MOST_TOKENS = 10**7
MOST_TOTAL = 10**15


class PromptGroup(NamedTuple):
    """Requests of one second with prompts of about one length.

    A plain tuple: a thousand of them are made a tick.
    """

    requests: int
    prompt_tokens: float


@dataclass(frozen=True, slots=True)
class Second:
    """What entered in one second: prompts as sent, and how many of their tokens were cached."""

    groups: tuple[PromptGroup, ...]
    cached_tokens: float


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Requests per second over at most the last 20 minutes.

    Attributes:
        end_s: the first second that is not over yet.
        counts: one entry per known second up to `end_s`. Before them all is unknown: the history
            begins where the youngest router did that joined no others, after those who had waited
            for it.
        seconds: detail of the recent seconds that saw anything, by second.
        complete: whether every router answered, clients could reach one, and none was lost lately;
            otherwise the counts are a lower bound.
        queued_prompt_tokens: of requests that wait in routers now.
        prefill_requests: those that prefill pods have now. Of neither is known yet what was cached.
    """

    end_s: int
    counts: tuple[float, ...]
    seconds: Mapping[int, Second]
    complete: bool
    queued_prompt_tokens: int = 0
    prefill_requests: int = 0

    @property
    def known_s(self) -> int:
        """Length of the known history."""
        return len(self.counts)

    def rate_rps(self, window_s: int) -> float | None:
        """Mean arrivals per second over what is known of the window."""
        known = self.counts[-window_s:]
        return sum(known) / len(known) if known else None


def merge(
    reports: Sequence[RouterReport],
    *,
    expected: int,
    turned_away: bool = False,
    tuning: Tuning = TUNING,
) -> Arrivals:
    """One history out of all fresh reports; `expected` routers should have answered.

    Routers that ended add what they saw, but answer for no other. One that joined others has missed
    nothing that they did not see.
    """
    answered = [report for report in reports if not report.ended]
    if not answered:
        return Arrivals(end_s=0, counts=(), seconds={}, complete=False)
    end_s = floor(min(report.sampled_s for report in answered))
    lost = any(report.lost_lately(end_s, tuning=tuning) for report in reports)
    complete = len(answered) >= max(1, expected) and not turned_away and not lost
    began_s = max((ceil(report.started_s) for report in reports if not report.joined), default=0)
    first_s = max(end_s - HISTORY_S, began_s)
    length = max(0, end_s - first_s)
    counts: list[float] = [0.0] * length
    groups: dict[int, tuple[PromptGroup, ...]] = {}
    cached: dict[int, float] = {}
    for report in reports:
        for row in report.arrivals:
            index = row.second - first_s
            if not 0 <= index < length:
                continue
            counts[index] += min(max(0, sum(row.requests)), MOST_PER_SECOND)
            if row.second >= end_s - GROUPS_S:
                found = _groups(row.requests, row.prompt_tokens)
                groups[row.second] = groups.get(row.second, ()) + found
                cached[row.second] = cached.get(row.second, 0.0) + row.cached_tokens
    herd_s = _herd_s(counts, tuning=tuning) if first_s == began_s else 0
    seconds = {
        second: Second(groups=groups[second], cached_tokens=cached[second])
        for second in sorted(groups)
        if second >= first_s + herd_s
    }
    return Arrivals(
        end_s=end_s,
        counts=tuple(counts[herd_s:]),
        seconds=seconds,
        complete=complete,
        queued_prompt_tokens=sum(report.queued_prompt_tokens for report in reports),
        prefill_requests=sum(report.prefill_requests for report in reports),
    )


def _herd_s(counts: Sequence[float], *, tuning: Tuning = TUNING) -> int:
    """Seconds until all had come who waited for the router; 0 where nobody did.

    They are a backlog and are served as one. Taken for a burst of the traffic, they would be sized
    for as long as the history shows them.
    """
    herd, after_s = tuning.observe, tuning.observe.after_herd_s
    first = next((second for second, count in enumerate(counts[: herd.reached_s]) if count), 0)
    end = first
    while end < first + herd.herd_s and end + after_s < len(counts):
        level = sum(counts[end + 1 : end + 1 + after_s]) / after_s
        if counts[end] <= level + herd.herd_deviations * sqrt(max(1.0, level)):
            break
        end += 1
    return end if end > first else 0


@lru_cache(maxsize=4096)
def _groups(requests: tuple[int, ...], tokens: tuple[int, ...]) -> tuple[PromptGroup, ...]:
    """One row's groups: nearly all are those of the last tick."""
    groups = []
    for count, total in zip(requests, tokens, strict=False):
        if count > 0:
            each = min(max(0, total // count), MOST_TOKENS)
            groups.append(PromptGroup(min(count, MOST_PER_SECOND), each))
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How the requests that ended in a window went.

    Attributes:
        overdue: those of `finished` that wait and are late already.
    """

    window_s: float
    finished: int
    good: int
    late_ttft: int
    late_tpot: int
    failed: int
    shed: int
    output_tokens: int
    output_tokens_squared: int
    blame: Mapping[str, int]
    overdue: int = 0

    @property
    def attainment(self) -> float | None:
        """Share of good requests; `None` where nothing ended."""
        return self.good / self.finished if self.finished else None

    @property
    def answered(self) -> int:
        """Requests that ended with an answer."""
        return max(0, self.finished - self.failed - self.shed - self.overdue)


def outcomes(reports: Sequence[RouterReport], *, window_s: int, echoes: bool = True) -> Outcomes:
    """Sum of what ended within the last `window_s` seconds before each router's answer.

    Who waits and became late in the last minute counts as a violation already: those may wait for
    long before they end. Without `echoes`, they do not count again once they end.
    """
    rows: list[FinishedSecond] = []
    for report in reports:
        first_s, last_s = report.sampled_s - window_s, report.sampled_s
        rows += [row for row in report.finished if first_s <= row.second <= last_s]
    blame: dict[str, int] = {}
    repeated = 0
    for row in rows:
        for cause, count in row.blame.items():
            again = 0 if echoes else min(count, row.echoes.get(cause, 0))
            blame[cause] = blame.get(cause, 0) + count - again
            repeated += again
    overdue = [min(report.overdue_requests, MOST_TOTAL) for report in reports]
    held = [min(report.held_overdue_requests, MOST_TOTAL) for report in reports]
    for cause, count in (
        ("decode_admission", sum(held)),
        ("router_queue", sum(overdue) - sum(held)),
    ):
        if count > 0:
            blame[cause] = blame.get(cause, 0) + count
    return Outcomes(
        window_s=float(window_s),
        finished=_total([*(row.finished for row in rows), *overdue, -repeated]),
        good=_total([row.good for row in rows]),
        late_ttft=_total([*(row.late_ttft for row in rows), *overdue, -repeated]),
        late_tpot=_total([row.late_tpot for row in rows]),
        failed=_total([row.failed for row in rows]),
        shed=_total([row.shed for row in rows]),
        output_tokens=_total([row.output_tokens for row in rows]),
        output_tokens_squared=_total([row.output_tokens_squared for row in rows]),
        blame=dict(sorted(blame.items())),
        overdue=_total(overdue),
    )


def _total(counts: Sequence[int]) -> int:
    return min(max(0, sum(counts)), MOST_TOTAL)
