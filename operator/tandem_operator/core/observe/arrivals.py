"""Merge the routers' reports into one history of whole seconds, in which a gap stays unknown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import zip_longest
from math import ceil, floor, sqrt
from typing import Any, NamedTuple, TypeVar

from tandem_operator.core.observation import (
    ArrivalSecond,
    ClassWindow,
    FinishedSecond,
    RouterReport,
    TenantWindow,
)
from tandem_operator.core.slo import SloClass
from tandem_operator.core.tuning.tuning import TUNING, Tuning

HISTORY_S = 1200
GROUPS_S = 240
WAKE = "wake"
"""The blame of requests that waited for a pool at zero."""
MOST_PER_SECOND = 10**6
MOST_TOKENS = 10**7
MOST_TOTAL = 10**15

_Window = TypeVar("_Window", ClassWindow, TenantWindow)


class PromptGroup(NamedTuple):
    """Requests of one second with prompts of about one length, in tokens.

    `cached_tokens` are those of all, as far as known. It is a plain tuple, because a tick makes a
    thousand of them.
    """

    requests: int
    prompt_tokens: float
    cached_tokens: float = 0.0
    bucket: int = 0


@dataclass(frozen=True, slots=True)
class Second:
    """Arrivals of one second: prompts as sent, and their cached tokens."""

    groups: tuple[PromptGroup, ...]

    @property
    def prompt_tokens(self) -> float:
        """Return the tokens of all prompts."""
        return sum([group.requests * group.prompt_tokens for group in self.groups])

    @property
    def cached_tokens(self) -> float:
        """Return the cached tokens of all prompts, as far as known."""
        return sum([group.cached_tokens for group in self.groups])


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Requests per second over at most the last 20 minutes.

    Attributes:
        end_s: the first second that has not ended yet.
        counts: one entry per known second up to `end_s`. Earlier seconds are unknown: the history
            begins with the youngest router that started alone, after the requests that had waited
            for it.
        seconds: details of recent seconds with arrivals, by second.
        complete: whether every router answered, clients could reach one, and none was lost lately;
            otherwise the counts are a lower bound.
        queued_prompt_tokens: of requests that wait in routers now.
        prefill_requests: requests at prefill pods now. The cached tokens of both are not known yet.
    """

    end_s: int
    counts: tuple[float, ...]
    seconds: Mapping[int, Second]
    complete: bool
    queued_prompt_tokens: int = 0
    prefill_requests: int = 0

    @property
    def known_s(self) -> int:
        """Return the length of the known history."""
        return len(self.counts)

    def rate_rps(self, window_s: int) -> float | None:
        """Return the mean arrivals per second over the known part of the window."""
        known = self.counts[-window_s:]
        return sum(known) / len(known) if known else None


def merge(
    reports: Sequence[RouterReport],
    *,
    expected: int,
    turned_away: bool = False,
    tuning: Tuning = TUNING,
) -> Arrivals:
    """Return one history from all fresh reports; `expected` routers should have answered.

    Routers that ended add their history, but cannot replace an answer. A router that joined others
    missed only arrivals that they saw.
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
    for report in reports:
        for row in report.arrivals:
            index = row.second - first_s
            if not 0 <= index < length:
                continue
            counts[index] += min(max(0, sum(row.requests)), MOST_PER_SECOND)
            if row.second >= end_s - GROUPS_S:
                found = _groups(row.requests, row.prompt_tokens, _cached(row))
                groups[row.second] = groups.get(row.second, ()) + found
    herd_s = _herd_s(counts, tuning=tuning) if first_s == began_s else 0
    seconds = {
        second: Second(groups=groups[second])
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
    """Return the seconds until all requests had come that waited for the router; 0 without any.

    They are a backlog and are served as one. Counted as a burst of traffic, they would change the
    size for as long as the history shows them.
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


def _cached(row: ArrivalSecond) -> tuple[float, ...]:
    """Return a row's cached tokens by bucket; in proportion to prompts, if only their sum is known.

    So a router of an older version tells the hit rate, but not which lengths hit.
    """
    if row.cached_by_bucket or row.cached_tokens <= 0:
        return row.cached_by_bucket
    share = row.cached_tokens / max(1, sum(row.prompt_tokens))
    return tuple([share * tokens for tokens in row.prompt_tokens])


@lru_cache(maxsize=4096)
def _groups(
    requests: tuple[int, ...], tokens: tuple[int, ...], cached: tuple[float, ...]
) -> tuple[PromptGroup, ...]:
    """Return one row's groups; nearly all are those of the last tick."""
    groups = []
    rows = zip_longest(requests, tokens, cached, fillvalue=0)
    for bucket, (count, total, hits) in enumerate(rows):
        if count > 0:
            each = min(max(0, total // count), MOST_TOKENS)
            cached_tokens = min(max(0.0, hits), max(0, total))
            groups.append(PromptGroup(min(count, MOST_PER_SECOND), each, cached_tokens, bucket))
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Results of the requests that ended in a window.

    Attributes:
        overdue: those of `finished` that still wait and are late already.
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
        """Return the share of good requests; `None` if no request ended."""
        return self.good / self.finished if self.finished else None

    @property
    def attainment_awake(self) -> float | None:
        """Return the same without requests that were late because the pool was at zero.

        The models and prices learn from this share, because no fleet was at fault for the others.
        """
        finished = self.finished - self.blame.get(WAKE, 0)
        return self.good / finished if finished > 0 else None

    @property
    def answered(self) -> int:
        """Return the requests that ended with an answer."""
        return max(0, self.finished - self.failed - self.shed - self.overdue)


def outcomes(reports: Sequence[RouterReport], *, window_s: int, echoes: bool = True) -> Outcomes:
    """Return the sum over the last `window_s` seconds before each router's answer.

    A waiting request that became late in the last minute already counts as a violation, because it
    may wait for long before it ends. Without `echoes`, it does not count again at its end.
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


def by_class(
    classes: Sequence[SloClass], reports: Sequence[RouterReport]
) -> tuple[ClassWindow, ...]:
    """Return the results of each class, over all routers."""
    names = (each.name for each in classes)
    return _by_name(names, (window for report in reports for window in report.classes))


def by_tenant(names: Sequence[str], reports: Sequence[RouterReport]) -> tuple[TenantWindow, ...]:
    """Return the results of each tenant, over all routers."""
    return _by_name(names, (window for report in reports for window in report.tenants))


def _by_name(names: Iterable[str], windows: Iterable[_Window]) -> tuple[_Window, ...]:
    """Return the sum of the windows of each name that has any."""
    of: dict[str, list[_Window]] = {}
    for window in windows:
        of.setdefault(window.name, []).append(window)
    return tuple(_sum(of[name]) for name in names if name in of)


def _sum(windows: Sequence[_Window]) -> _Window:
    counts = {field.name for field in fields(windows[0])} - {"name", "window_s"}
    sums: dict[str, Any] = {
        name: _total([getattr(window, name) for window in windows]) for name in counts
    }
    longest_s = max(1.0, *(window.window_s for window in windows))
    return replace(windows[0], window_s=longest_s, **sums)


def best_effort_queued(classes: Sequence[SloClass], reports: Sequence[RouterReport]) -> int:
    """Return the waiting requests for which no replica is held."""
    names = {each.name for each in classes if not each.guaranteed}
    windows = (window for report in reports for window in report.classes if window.name in names)
    return _total([window.queued_requests for window in windows])


def _total(counts: Sequence[int]) -> int:
    return min(max(0, sum(counts)), MOST_TOTAL)
