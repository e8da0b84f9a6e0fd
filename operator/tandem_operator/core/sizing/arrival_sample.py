"""The recent requests as a stationary sample, which can be replayed at any rate.

Arrivals of the last minutes are moved to *operational time*, in which their local rate is one.
Without that, on a ramp, faster replayed old arrivals would look like bursts. Prompt lengths are
scaled to the recent mean in the same way. The burstiness stays: it is replayed, not assumed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from tandem_operator.core.forecast.change_point import last_step_s
from tandem_operator.core.observe.arrivals import Arrivals, PromptGroup
from tandem_operator.core.observe.prefix_cache import cached_shares
from tandem_operator.core.statistics import believed
from tandem_operator.core.tuning.tuning import TUNING, Tuning


class Request(NamedTuple):
    """One request of the sample, or a few alike: its operational time, and its prompt.

    It is a plain tuple, because a tick makes a thousand of them.
    """

    at: float
    requests: int
    prompt_tokens: float
    cached_tokens: float


@dataclass(frozen=True, slots=True)
class Workload:
    """The sample, in order of arrival, and its means.

    Attributes:
        singles_from: the first of the latest entries that are all single requests.
    """

    requests: tuple[Request, ...]
    singles_from: int
    total: int
    mean_prompt_tokens: float
    dispersion: float


@dataclass(frozen=True, slots=True)
class _Row:
    """The arrivals of one second of the window.

    Attributes:
        entries: share of the second passed, number of requests, tokens of each, and their bucket;
            in order.
    """

    second: int
    entries: tuple[tuple[float, int, float, int], ...]
    requests: int
    tokens: float
    squared_tokens: float


def workload(
    arrivals: Arrivals, *, caches_moving: bool = False, tuning: Tuning = TUNING
) -> Workload | None:
    """Return the sample of the recent window; `None` without a request.

    `caches_moving` says that a prefill pod left just now, with its prefix cache.
    """
    counts = arrivals.counts[-tuning.sizing.sample_window_s :]
    first_s = arrivals.end_s - len(counts)
    rows = _rows(arrivals, first_s, tuning=tuning)
    total = sum(row.requests for row in rows)
    if total == 0:
        return None
    step_age_s = last_step_s(counts, tuning=tuning)
    wall = len(counts) - step_age_s if step_age_s is not None else 0
    rates = _moving_mean(counts, tuning.sizing.rate_half_window_s, wall)
    passed = [0.0]
    for rate in rates:
        passed.append(passed[-1] + max(rate, 1e-3))
    stretch = total / passed[-1]
    sizes = _length_scale(rows, first_s, len(counts), wall, tuning=tuning)
    cached = cached_shares(arrivals, first_s=first_s, moving=caches_moving, tuning=tuning)
    requests: list[Request] = []
    tokens = 0.0
    for row in rows:
        index = row.second - first_s
        start = passed[index] * stretch
        span = (passed[index + 1] - passed[index]) * stretch
        scale = sizes[index]
        tokens += row.tokens * scale
        for share, count, length, bucket in row.entries:
            size = length * scale
            hits = size * cached.get(bucket, 0.0)
            requests.append(Request(start + span * share, count, size, hits))
    return Workload(
        requests=tuple(requests),
        singles_from=_singles_from(requests, tuning=tuning),
        total=total,
        mean_prompt_tokens=tokens / total,
        dispersion=_dispersion(counts, rates, tuning=tuning),
    )


def _singles_from(requests: Sequence[Request], *, tuning: Tuning = TUNING) -> int:
    exact_requests = tuning.sizing.exact_requests
    for seen, request in enumerate(reversed(requests)):
        if request.requests > 1 or seen == exact_requests:
            return len(requests) - seen
    return 0


def _rows(arrivals: Arrivals, first_s: int, *, tuning: Tuning = TUNING) -> list[_Row]:
    """Return the window's seconds with arrivals, in order.

    The place of a request within its second is not known. A fixed hash draws it evenly, as in a
    Poisson second with this count.
    """
    window = sorted(at for at in arrivals.seconds if first_s <= at < arrivals.end_s)
    exact_from, left = arrivals.end_s, tuning.sizing.exact_requests
    for second in reversed(window):
        left -= sum(group.requests for group in arrivals.seconds[second].groups)
        if left < 0 and exact_from < arrivals.end_s:
            break
        exact_from = second
    most = tuning.sizing.most_entries_per_s
    return [
        _row(second, arrivals.seconds[second].groups, exact=second >= exact_from, most=most)
        for second in window
    ]


@lru_cache(maxsize=4096)
def _row(second: int, groups: tuple[PromptGroup, ...], *, exact: bool, most: int) -> _Row:
    """Return one second's row, of about `most` entries if not exact; most rows are cached."""
    total = sum(group.requests for group in groups)
    exact = exact or total <= most
    alike: list[tuple[int, float, int]] = []
    tokens = squared = 0.0
    for requests, length, _, bucket in groups:
        tokens += requests * length
        squared += requests * length * length
        if exact:
            alike.extend([(1, length, bucket)] * requests)
            continue
        parts = max(1, most * requests // total)
        for part in range(parts):
            count = requests * (part + 1) // parts - requests * part // parts
            alike.append((count, length, bucket))
    entries = [(_scatter(second, at), *each) for at, each in enumerate(alike)]
    entries.sort(key=itemgetter(0))
    return _Row(second, tuple(entries), total, tokens, squared)


def _scatter(second: int, index: int) -> float:
    mixed = (second * 2654435761 + index * 2246822519 + 374761393) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 2246822519) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 13)) * 3266489917) & 0xFFFFFFFF
    return ((mixed ^ (mixed >> 16)) & 0xFFFFFF) / float(0x1000000)


def _moving_mean(values: Sequence[float], half: int, wall: int) -> list[float]:
    """Return the mean over +-`half` entries around each; fewer at the ends, none across the `wall`.

    A mean across a sudden change of level would make a burst of the entries after it.
    """
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    size = len(values)
    means = []
    for i in range(size):
        start, end = (0, wall) if i < wall else (wall, size)
        low, high = max(start, i - half), min(end, i + half + 1)
        means.append((sums[high] - sums[low]) / (high - low))
    return means


def _length_scale(
    rows: Sequence[_Row], first_s: int, span_s: int, wall: int, *, tuning: Tuning = TUNING
) -> list[float]:
    """Return for each second the recent mean prompt length over the mean length around it."""
    half_s, prior = tuning.sizing.length_half_window_s, tuning.sizing.sample_prior_requests
    tokens, requests = [0.0] * span_s, [0.0] * span_s
    for row in rows:
        tokens[row.second - first_s] = row.tokens
        requests[row.second - first_s] = row.requests
    total = sum(requests)
    mean = sum(tokens) / total
    overall = max(1.0, mean)
    since = max(wall, span_s - tuning.sizing.length_recent_s)
    variance = max(0.0, sum(row.squared_tokens for row in rows) / total - mean * mean)
    recent = believed(
        _shrunk(sum(tokens[since:]), sum(requests[since:]), overall, prior),
        overall,
        variance=variance / (sum(requests[since:]) + prior),
        tuning=tuning,
    )
    local_tokens = _moving_mean(tokens, half_s, wall)
    local_requests = _moving_mean(requests, half_s, wall)
    width = 2 * half_s + 1
    return [
        recent / _shrunk(t * width, r * width, overall, prior)
        for t, r in zip(local_tokens, local_requests, strict=True)
    ]


def _shrunk(total: float, count: float, usual: float, prior_requests: float) -> float:
    return (total + prior_requests * usual) / (count + prior_requests)


def _dispersion(
    counts: Sequence[float], rates: Sequence[float], *, tuning: Tuning = TUNING
) -> float:
    """Return the variance of the counts around their local rate, over that rate: 1 for Poisson."""
    expected = sum(rates)
    if expected <= 0.0:
        return 1.0
    squares = sum((count - rate) ** 2 for count, rate in zip(counts, rates, strict=True))
    prior = tuning.sizing.sample_prior_requests
    return min(50.0, max(0.5, (squares + prior) / (expected + prior)))
