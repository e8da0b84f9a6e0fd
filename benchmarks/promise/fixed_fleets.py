"""The cheapest fleet that never moves and reaches a target, searched for in hindsight."""

from collections.abc import Callable, Sequence
from math import ceil

from benchmarks.promise.bench import Bench, Size
from benchmarks.promise.cases import MOST_REPLICAS, demand
from benchmarks.promise.kept import Row, key_of
from tandem_operator.core.role import Role

# Where the search begins, over what the mean load keeps busy.
SPARE = 1.5


def cheapest(benches: Sequence[Bench]) -> Size | None:
    """Return the smallest fleet that reaches the target over all requests of these cases together.

    All have the target of the first. `None`: no fleet within bounds is enough.
    """
    target = benches[0].case.target
    if _attained(benches, (MOST_REPLICAS, MOST_REPLICAS)) < target:
        return None
    needs = [_need(bench) for bench in benches]
    prefill, decode = (max(0.5, sum(need[role] for need in needs) / len(needs)) for role in Role)
    share = prefill / (prefill + decode)

    def split(total: int) -> Size:
        best = best_split(lambda p: _attained(benches, (p, total - p)), share, total, target)
        return best, total - best

    def enough(total: int) -> bool:
        return _attained(benches, split(total)) >= target

    return split(least(enough, ceil(SPARE * (prefill + decode)), 2 * MOST_REPLICAS))


def _attained(benches: Sequence[Bench], size: Size) -> float:
    rows = [bench.fixed(size) for bench in benches]
    requests = sum(row["requests"] for row in rows)
    return 1.0 - sum(row["late"] for row in rows) / requests if requests else 1.0


def _need(bench: Bench) -> Row:
    """Return the replicas by role that the mean load keeps busy."""

    def measured() -> Row:
        need = demand(bench.pool.trace, bench.pool.spec)
        return {role.value: count for role, count in need.items()}

    return bench.kept.get(key_of("fixed", bench.case.identity, "need"), measured)


def best_split(attained: Callable[[int], float], share: float, total: int, target: float) -> int:
    """Return prefill replicas of a total that attain the target, or else the most.

    Attainment rises and then falls with them, so a climb from their `share` finds the top.
    """
    low, high = max(1, total - MOST_REPLICAS), min(MOST_REPLICAS, total - 1)
    at = min(max(low, round(share * total)), high)
    for way in (-1, 1):
        while (
            attained(at) < target and low <= at + way <= high and attained(at + way) > attained(at)
        ):
            at += way
    return at


def least(enough: Callable[[int], bool], guess: int, most: int) -> int:
    """Return the least count above 1 that is enough, near a guess; `most` is known to be enough."""
    low, high = 1, most
    at, step = min(max(2, guess), most), 1
    while high - low > 1:
        if enough(at):
            high = at
        else:
            low = at
        if high == most and low < at + step < high:
            at, step = at + step, 2 * step
        elif low == 1 and low < high - step:
            at, step = high - step, 2 * step
        else:
            at = (low + high) // 2
    return high
