"""Who is run on a case: each policy by name, with the runs that its row needs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import dropwhile, islice, takewhile

from benchmarks.promise.bench import Bench
from benchmarks.promise.fixed_fleets import cheapest
from benchmarks.promise.kept import Row
from benchmarks.promise.ratchet import Ratchet
from benchmarks.promise.relay import Relay
from benchmarks.promise.scores import STATIONARY
from tandem_operator.cli.experiments.policies import concurrency, latency_settings
from tandem_operator.cli.input import case as simulated
from tandem_operator.sim.baselines.clairvoyant import Clairvoyant
from tandem_operator.sim.baselines.dynamo import Dynamo, DynamoSettings
from tandem_operator.sim.baselines.hold import Hold
from tandem_operator.sim.baselines.hpa import SCALE_DOWN, Hpa, HpaSettings, Rules
from tandem_operator.sim.baselines.signals import Signal
from tandem_operator.sim.policy import EPOCH_S, Policy, Tandem

# Shares of what a replica can bear: the lower, the more is held ready.
LATENCY_SHARES = (0.3, 0.5, 0.8, 0.95)
CONCURRENCY_SHARES = (0.15, 0.3, 0.5, 0.7, 0.9)
STABILIZATIONS_S = (60.0, 300.0, 900.0)
# Of its own, as shares of what a replica can do: above 1 it is late at peaks, as a target allows.
PREFILL_UTILIZATIONS = (0.65, 0.75, 0.82, 0.9, 1.0, 1.1, 1.25)
DECODE_UTILIZATIONS = (0.8, 0.9, 1.0, 1.1)
# Other draws of a process, by seeds that no case of a sample has.
DRAWS, SEED_STRIDE = 3, 1_000_003
DYNAMO = DynamoSettings(throughput_s=60.0, load_s=5.0)


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
    size = cheapest((bench,))
    return None if size is None else bench.fixed(size)


def informed(bench: Bench) -> Row | None:
    """The fixed fleet that is cheapest on other draws of the same process, run on this one.

    It knows what no policy can learn better from the past: the process itself, and of its draws
    none. `None` where the traffic is not stationary, or no fleet reaches the target there.
    """
    traffic = bench.case.traffic
    if traffic.family not in STATIONARY:
        return None
    draws = [
        replace(bench.case, traffic=replace(traffic, seed=traffic.seed + number * SEED_STRIDE))
        for number in range(1, DRAWS + 1)
    ]
    size = cheapest([Bench(case, bench.kept, bench.folder) for case in draws])
    return None if size is None else bench.fixed(size)


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
    "informed": informed,
    "clairvoyant": clairvoyant,
    "surprised": surprised,
    "caught": caught,
    "thrifty": thrifty,
    "dynamo": dynamo,
    "hpa": hpa,
    "keda": keda,
}
