"""Who is run on a case: each policy by name, with the runs that its row needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, islice, takewhile
from math import ceil
from pathlib import Path

from benchmarks.promise.cases import MOST_REPLICAS, Case, demand, pool_of
from benchmarks.promise.kept import Kept, Row, key_of
from benchmarks.promise.ratchet import Ratchet
from benchmarks.promise.relay import Relay
from benchmarks.promise.runs import run
from tandem_operator.cli import case as simulated
from tandem_operator.cli.policies import concurrency, latency_settings
from tandem_operator.core.role import Role
from tandem_operator.sim.baselines.clairvoyant import Clairvoyant
from tandem_operator.sim.baselines.dynamo import Dynamo, DynamoSettings
from tandem_operator.sim.baselines.hold import Hold
from tandem_operator.sim.baselines.hpa import SCALE_DOWN, Hpa, HpaSettings, Rules
from tandem_operator.sim.baselines.signals import Signal
from tandem_operator.sim.policy import EPOCH_S, Policy, Static, Tandem

Size = tuple[int, int]
# Where the search for a fixed fleet begins, over what its mean load keeps busy.
SPARE = 1.5
# Shares of what a replica can bear: the lower, the more is held ready.
LATENCY_SHARES = (0.3, 0.5, 0.8, 0.95)
CONCURRENCY_SHARES = (0.15, 0.3, 0.5, 0.7, 0.9)
STABILIZATIONS_S = (60.0, 300.0, 900.0)
# Of its own, as shares of what a replica can do: above 1 it is late at peaks, as a target allows.
PREFILL_UTILIZATIONS = (0.65, 0.75, 0.82, 0.9, 1.0, 1.1, 1.25)
DECODE_UTILIZATIONS = (0.8, 0.9, 1.0, 1.1)
DYNAMO = DynamoSettings(throughput_s=60.0, load_s=5.0)


@dataclass(slots=True)
class Bench:
    """A case with the file that keeps its runs."""

    case: Case
    kept: Kept
    folder: Path | None
    _pool: simulated.Case | None = None

    @property
    def pool(self) -> simulated.Case:
        """The pool; made when something must be run."""
        if self._pool is None:
            self._pool = pool_of(self.case, self.folder)
        return self._pool

    def one(self, kind: str, settings: object, policy: Callable[[simulated.Case], Policy]) -> Row:
        """One run, or what it was before."""
        key = key_of(kind, self.case.told, settings)
        return self.kept.get(key, lambda: run(self.case, self.pool, policy(self.pool)))

    def fixed(self, size: Size) -> Row:
        """The run of a fleet that never moves. The objective tells it nothing."""
        told = self.case.told.rpartition(" ")[0]
        fleet = {Role.PREFILL: size[0], Role.DECODE: size[1]}
        key = key_of("fixed", told, size)
        return self.kept.get(key, lambda: run(self.case, self.pool, Static(fleet)))


def tandem(bench: Bench) -> Row:
    """The core as it is."""
    return bench.one("tandem", "", lambda _: Tandem())


def hold(bench: Bench) -> Row:
    """What the last hour needed."""
    return bench.one("hold", "", lambda pool: Hold(pool.profile))


def ratchet(bench: Bench) -> Row:
    """What the most of the past needed, for ever: it learns, and guesses nothing."""
    return bench.one("ratchet", "", lambda pool: Ratchet(Hold(pool.profile)))


def clairvoyant(bench: Bench) -> Row:
    """Who knows each request."""
    return bench.one("clairvoyant", "", _seer)


def _seer(pool: simulated.Case, event_s: float | None = None) -> Policy:
    start_s = pool.cold_start.median_s
    return Clairvoyant(pool.trace, pool.profile, pool.spec, start_s=start_s, event_s=event_s)


def surprised(bench: Bench) -> Row | None:
    """Who knows each request, but of an event only once it happened; `None` where there is none."""
    event_s = bench.case.event_s
    if event_s is None:
        return None
    return bench.one("clairvoyant", "surprised", lambda pool: _seer(pool, event_s))


def caught(bench: Bench) -> Row | None:
    """The excess of one start-up: Tandem's own fleet until the event, and then who knows all.

    `surprised` has a fleet of its own when the event comes, larger or smaller by its rule's chance.
    """
    event_s = bench.case.event_s
    if event_s is None:
        return None
    return bench.one(
        "caught", event_s, lambda pool: Relay(Tandem(), _seer(pool), EPOCH_S + event_s)
    )


def thrifty(bench: Bench) -> Row | None:
    """Who knows each request and keeps no more spare than the target needs, found in hindsight."""

    def policy(prefill: float, decode: float) -> Callable[[simulated.Case], Policy]:
        def made(pool: simulated.Case) -> Policy:
            start_s = pool.cold_start.median_s
            return Clairvoyant(
                pool.trace,
                pool.profile,
                pool.spec,
                start_s=start_s,
                prefill_utilization=prefill,
                decode_utilization=decode,
            )

        return made

    return _tuned(bench, "clairvoyant", PREFILL_UTILIZATIONS, DECODE_UTILIZATIONS, policy)


def dynamo(bench: Bench) -> Row:
    """Both loops."""
    return bench.one("dynamo", DYNAMO, lambda pool: Dynamo(pool.profile, DYNAMO))


def cheapest_fixed(bench: Bench) -> Row | None:
    """The fixed fleet with the fewest GPUs that reaches the target; `None`: none within bounds."""
    case = bench.case
    if bench.fixed((MOST_REPLICAS, MOST_REPLICAS))["attainment"] < case.target:
        return None
    need = bench.kept.get(key_of("fixed", case.told, "need"), lambda: _need(bench))
    prefill, decode = (max(0.5, need[role]) for role in Role)
    share = prefill / (prefill + decode)

    def attained(prefill: int, total: int) -> float:
        attainment: float = bench.fixed((prefill, total - prefill))["attainment"]
        return attainment

    def enough(total: int) -> bool:
        best = best_split(lambda p: attained(p, total), share, total, case.target)
        return attained(best, total) >= case.target

    total = least(enough, ceil(SPARE * (prefill + decode)), 2 * MOST_REPLICAS)
    best = best_split(lambda p: attained(p, total), share, total, case.target)
    return bench.fixed((best, total - best))


def best_split(attained: Callable[[int], float], share: float, total: int, target: float) -> int:
    """Prefill replicas of a total that attain the target, or else the most.

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


def _need(bench: Bench) -> Row:
    need = demand(bench.pool.trace, bench.pool.spec)
    return {role.value: count for role, count in need.items()}


def least(enough: Callable[[int], bool], guess: int, most: int) -> int:
    """The least count above 1 that is enough, looked for around a guess; `most` is known to be."""
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


def hpa(bench: Bench) -> Row | None:
    """Kubernetes' own on p95 latencies, its settings those that were best on this very trace."""

    def policy(share: float, stabilization_s: float) -> Callable[[simulated.Case], Policy]:
        def made(pool: simulated.Case) -> Policy:
            settings = replace(latency_settings(pool, share), down=_down(stabilization_s))
            return Hpa(f"hpa at {share:g}, {stabilization_s:g} s", settings)

        return made

    return _tuned(bench, "hpa", LATENCY_SHARES, STABILIZATIONS_S, policy)


def keda(bench: Bench) -> Row | None:
    """The same controller on requests that a role has, as KEDA feeds it."""

    def policy(share: float, stabilization_s: float) -> Callable[[simulated.Case], Policy]:
        def made(pool: simulated.Case) -> Policy:
            replica = concurrency(pool, share)
            settings = HpaSettings(Signal.CONCURRENCY, replica, down=_down(stabilization_s))
            return Hpa(f"keda at {share:g}, {stabilization_s:g} s", settings)

        return made

    return _tuned(bench, "keda", CONCURRENCY_SHARES, STABILIZATIONS_S, policy)


def _down(stabilization_s: float) -> Rules:
    return replace(SCALE_DOWN, stabilization_s=stabilization_s)


def _tuned(
    bench: Bench,
    kind: str,
    shares: Sequence[float],
    seconds: Sequence[float],
    policy: Callable[[float, float], Callable[[simulated.Case], Policy]],
) -> Row | None:
    """The cheapest that reaches the target, over a grid of shares and of a second setting.

    A higher share of what a replica can bear costs less and attains less, so of each second
    setting only the shares around the edge are run.
    """
    target, reached = bench.case.target, list[Row]()
    for second in seconds:

        def ran(index: int, second: float = second) -> Row:
            share = shares[index]
            return bench.one(kind, (share, second), policy(share, second))

        middle = len(shares) // 2
        rows = [ran(middle)]
        if rows[0]["attainment"] >= target:
            rows += takewhile(
                lambda row: row["attainment"] >= target, map(ran, range(middle + 1, len(shares)))
            )
        else:
            lower = map(ran, range(middle - 1, -1, -1))
            rows += islice(dropwhile(lambda row: row["attainment"] < target, lower), 1)
        reached += [row for row in rows if row["attainment"] >= target]
    return min(reached, key=lambda row: row["gpu_hours"], default=None)


POLICIES: dict[str, Callable[[Bench], Row | None]] = {
    "tandem": tandem,
    "hold": hold,
    "ratchet": ratchet,
    "fixed": cheapest_fixed,
    "clairvoyant": clairvoyant,
    "surprised": surprised,
    "caught": caught,
    "thrifty": thrifty,
    "dynamo": dynamo,
    "hpa": hpa,
    "keda": keda,
}
