"""The contenders of a case: each policy by name, with the runs that its row needs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import dropwhile, islice, takewhile

from benchmarks.promise.bench import Bench
from benchmarks.promise.fixed_fleets import cheapest
from benchmarks.promise.kept import Row
from benchmarks.promise.present import Present
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
    """Run the core as it is."""
    return bench.one("tandem", "", lambda _: Tandem())


def hold(bench: Bench) -> Row:
    """Run the policy that holds what the last hour needed."""
    return bench.one("hold", "", lambda pool: Hold(pool.profile))


def ratchet(bench: Bench) -> Row:
    """Run the policy that keeps for ever what its busiest past needed: it guesses nothing."""
    return bench.one("ratchet", "", lambda pool: Ratchet(Hold(pool.profile)))


def clairvoyant(bench: Bench) -> Row:
    """Run the policy that knows each request."""
    return bench.one("clairvoyant", "", _seer)


def _seer(pool: simulated.Case, event_s: float | None = None) -> Policy:
    start_s = pool.cold_start.median_s
    return Clairvoyant(pool.trace, pool.profile, pool.spec, start_s=start_s, event_s=event_s)


def surprised(bench: Bench) -> Row | None:
    """Run the policy that knows each request, but an event only once it happened.

    Return `None` if the case has no event.
    """
    event_s = bench.case.event_s
    if event_s is None:
        return None
    return bench.one("clairvoyant", "surprised", lambda pool: _seer(pool, event_s))


def caught(bench: Bench) -> Row | None:
    """Run Tandem until the event, and then the policy that knows all: the excess of one start-up.

    `surprised` has a fleet of its own at the event, larger or smaller by its rule's chance.
    """
    event_s = bench.case.event_s
    if event_s is None:
        return None
    return bench.one(
        "caught", event_s, lambda pool: Relay(Tandem(), _seer(pool), EPOCH_S + event_s)
    )


def noticed(bench: Bench) -> Row | None:
    """Run Tandem until the event, and then a policy that knows the present, not the future.

    Of its two settings, with and without a trend, the one with fewer late requests counts.
    """
    event_s = bench.case.event_s
    if event_s is None:
        return None

    def policy(pool: simulated.Case, trend: bool) -> Policy:
        start_s = pool.cold_start.median_s
        then = Present(pool.trace, pool.profile, pool.spec, start_s=start_s, trend=trend)
        return Relay(Tandem(), then, EPOCH_S + event_s)

    rows = [
        bench.one("noticed", (event_s, trend), partial(policy, trend=trend))
        for trend in (False, True)
    ]
    return max(rows, key=lambda row: row["attainment"])


def thrifty(bench: Bench) -> Row | None:
    """Run the policy that knows each request, with the least spare that reaches the target.

    That spare is found in hindsight.
    """

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
    """Run NVIDIA's planner with both of its loops."""
    return bench.one("dynamo", DYNAMO, lambda pool: Dynamo(pool.profile, DYNAMO))


def cheapest_fixed(bench: Bench) -> Row | None:
    """Run the cheapest fixed fleet that reaches the target; `None`: none within bounds."""
    size = cheapest((bench,))
    return None if size is None else bench.fixed(size)


def informed(bench: Bench) -> Row | None:
    """Run on this draw the fixed fleet that is cheapest on other draws of the same process.

    It knows the process itself, which no policy can learn better from the past, and none of the
    draws. `None` where the traffic is not stationary, or no fleet reaches the target there.
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
    """Run Kubernetes' own autoscaler on p95 latencies, with the best settings for this trace."""

    def policy(share: float, stabilization_s: float) -> Callable[[simulated.Case], Policy]:
        def made(pool: simulated.Case) -> Policy:
            settings = replace(latency_settings(pool, share), down=_down(stabilization_s))
            return Hpa(f"hpa at {share:g}, {stabilization_s:g} s", settings)

        return made

    return _tuned(bench, "hpa", LATENCY_SHARES, STABILIZATIONS_S, policy)


def keda(bench: Bench) -> Row | None:
    """Run the same controller on the requests of a role, as KEDA feeds it."""

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
    """Return the cheapest run that reaches the target, over a grid of shares and a second setting.

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
    "noticed": noticed,
    "thrifty": thrifty,
    "dynamo": dynamo,
    "hpa": hpa,
    "keda": keda,
}
