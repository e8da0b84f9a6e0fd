"""The recent requests as a stationary sample: what arrives now, at any rate one cares to ask about.

Arrivals of the last minutes are moved to *operational time*, in which their local rate is one: on a
ramp, old arrivals merely sped up would look like bursts. Prompt lengths are carried to the recent
mean in the same way. What stays is the burstiness, and it is replayed, not assumed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tandem_operator.core.arrivals import Arrivals

WINDOW_S = 180
RATE_HALF_WINDOW_S = 15
LENGTH_HALF_WINDOW_S = 30
RECENT_S = 30
PRIOR_REQUESTS = 10.0
MOST_CACHED_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the sample: when it comes in operational time, and its prompt."""

    at: float
    prompt_tokens: float
    cached_tokens: float


@dataclass(frozen=True, slots=True)
class Workload:
    """The sample, in order of arrival, and its means."""

    requests: tuple[Request, ...]
    mean_prompt_tokens: float
    dispersion: float


def workload(arrivals: Arrivals) -> Workload | None:
    """The sample of the recent window; `None` where it saw no request."""
    counts = arrivals.counts[-WINDOW_S:]
    first_s = arrivals.end_s - len(counts)
    raw = list(_placed(arrivals, first_s))
    if not raw:
        return None
    rates = _moving_mean(counts, RATE_HALF_WINDOW_S)
    passed = [0.0]
    for rate in rates:
        passed.append(passed[-1] + max(rate, 1e-3))
    stretch = len(raw) / passed[-1]
    sizes = _length_scale(raw, len(counts))
    cached = sum(s.cached_tokens for at, s in arrivals.seconds.items() if at >= first_s)
    prompt = sum(tokens for _, tokens in raw)
    cached_share = min(MOST_CACHED_SHARE, cached / prompt) if prompt > 0.0 else 0.0
    requests = []
    for at, tokens in raw:
        second = min(int(at), len(counts) - 1)
        position = passed[second] + (passed[second + 1] - passed[second]) * (at - second)
        size = tokens * sizes[second]
        requests.append(Request(position * stretch, size, size * cached_share))
    mean_tokens = sum(r.prompt_tokens for r in requests) / len(requests)
    return Workload(tuple(requests), mean_tokens, _dispersion(counts, rates))


def _placed(arrivals: Arrivals, first_s: int) -> Iterator[tuple[float, float]]:
    """Each request's offset from `first_s` and its prompt tokens, in order.

    Within its second a request's place is not known; it is drawn by a fixed hash, evenly, as given
    the count of a Poisson second it would be.
    """
    for second in sorted(at for at in arrivals.seconds if first_s <= at < arrivals.end_s):
        places: list[tuple[float, float]] = []
        for group in arrivals.seconds[second].groups:
            for _ in range(group.requests):
                places.append((_scatter(second, len(places)), group.prompt_tokens))
        places.sort()
        for place, tokens in places:
            yield second - first_s + place, tokens


def _scatter(second: int, index: int) -> float:
    mixed = (second * 2654435761 + index * 2246822519 + 374761393) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 2246822519) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 13)) * 3266489917) & 0xFFFFFFFF
    return ((mixed ^ (mixed >> 16)) & 0xFFFFFF) / float(0x1000000)


def _moving_mean(values: "tuple[float, ...] | list[float]", half: int) -> list[float]:
    """Mean over +-`half` entries around each entry, fewer at the ends."""
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    size = len(values)
    means = []
    for i in range(size):
        low, high = max(0, i - half), min(size, i + half + 1)
        means.append((sums[high] - sums[low]) / (high - low))
    return means


def _length_scale(raw: list[tuple[float, float]], span_s: int) -> list[float]:
    """Per second: recent mean prompt length over the mean length around that second."""
    tokens, requests = [0.0] * span_s, [0.0] * span_s
    for at, size in raw:
        second = min(int(at), span_s - 1)
        tokens[second] += size
        requests[second] += 1.0
    overall = max(1.0, sum(tokens) / sum(requests))
    recent = _shrunk(sum(tokens[-RECENT_S:]), sum(requests[-RECENT_S:]), overall)
    local_tokens = _moving_mean(tokens, LENGTH_HALF_WINDOW_S)
    local_requests = _moving_mean(requests, LENGTH_HALF_WINDOW_S)
    width = 2 * LENGTH_HALF_WINDOW_S + 1
    return [
        recent / _shrunk(t * width, r * width, overall)
        for t, r in zip(local_tokens, local_requests, strict=True)
    ]


def _shrunk(total: float, count: float, prior: float) -> float:
    return (total + PRIOR_REQUESTS * prior) / (count + PRIOR_REQUESTS)


def _dispersion(counts: "tuple[float, ...]", rates: list[float]) -> float:
    """Variance of the counts around their local rate over that rate: 1 for Poisson."""
    expected = sum(rates)
    if expected <= 0.0:
        return 1.0
    squares = sum((count - rate) ** 2 for count, rate in zip(counts, rates, strict=True))
    return min(50.0, max(0.5, (squares + PRIOR_REQUESTS) / (expected + PRIOR_REQUESTS)))
