"""Scenarios where time matters, or that one machine cannot have: played in the simulator."""

from dataclasses import replace
from random import Random

from e2e.faults.evidence import Play
from e2e.faults.in_simulator import Simulated, in_simulator, with_budget
from e2e.faults.scenario import Family, Loss, Scenario, Where
from tandem_operator.core.observation import Observation, PodPhase
from tandem_operator.core.role import Role
from tandem_operator.sim.cluster.faults import (
    CapacityBlocked,
    Fault,
    MetricsGone,
    PodLoss,
    Reclaimed,
    SlowPod,
    SlowStarts,
)
from tandem_operator.sim.policy import EPOCH_S
from tandem_operator.sim.traces.generate import burst, constant, step

SKEW_S = 25.0
NOTICE_S = 30.0
CRASH_FROM_S = 200.0
FOUR_EACH = dict.fromkeys(Role, 4)


def _skewed(seen: Observation, now_s: float) -> Observation:
    """Return an observation with half of the engines in the past, the other half in the future."""
    del now_s
    return replace(
        seen,
        engines=tuple(
            replace(engine, sampled_s=engine.sampled_s + (SKEW_S if number % 2 else -SKEW_S))
            for number, engine in enumerate(seen.engines)
        ),
    )


def _lying(seen: Observation, now_s: float) -> Observation:
    """Return fresh, plausible and wrong data: engines that are idle and five times as quick."""
    del now_s
    return replace(
        seen,
        engines=tuple(
            replace(
                engine,
                running=0.2 * engine.running,
                waiting=0.0,
                kv_usage_ratio=0.01,
                itl_sum_s=None if engine.itl_sum_s is None else 0.2 * engine.itl_sum_s,
            )
            for engine in seen.engines
        ),
    )


def _reset(seen: Observation, now_s: float) -> Observation:
    """Return totals that all begin at nothing every half minute."""
    share = (now_s % 30.0) / 30.0

    def down(total: float | None) -> float | None:
        return None if total is None else share * total

    return replace(
        seen,
        engines=tuple(
            replace(
                engine,
                itl_sum_s=down(engine.itl_sum_s),
                itl_count=down(engine.itl_count),
                generation_tokens_total=down(engine.generation_tokens_total),
                transfer_sum_s=down(engine.transfer_sum_s),
                transfer_count=down(engine.transfer_count),
            )
            for engine in seen.engines
        ),
    )


def _crash_looping(seen: Observation, now_s: float) -> Observation:
    """Return a pool in which the first pod of each role never becomes Ready again."""
    del now_s
    sick = {min((p.name for p in seen.pods if p.role is role), default="") for role in Role}
    return replace(
        seen,
        pods=tuple(
            replace(
                pod,
                phase=PodPhase.STARTING,
                ready_s=None,
                problem="Crashing",
                unready_s=EPOCH_S + CRASH_FROM_S,
            )
            if pod.name in sick
            else pod
            for pod in seen.pods
        ),
        engines=tuple(engine for engine in seen.engines if engine.pod not in sick),
    )


def _node_lost(random: Random) -> tuple[Fault, ...]:
    """Return the loss of two pods of each role within a second."""
    return tuple(PodLoss(200.0 + random.random(), role) for role in (*Role, *Role))


def _reclaimed(random: Random) -> tuple[Fault, ...]:
    return tuple(Reclaimed(200.0 + random.random(), role, NOTICE_S) for role in Role)


def random_faults(random: Random, *, count: int = 5) -> tuple[Fault, ...]:
    """Return several faults, at random times between 150 and 400 s."""
    return tuple(_random_fault(random, random.uniform(150.0, 400.0)) for _ in range(count))


def _random_fault(random: Random, at_s: float) -> Fault:
    role = random.choice(list(Role))
    until_s = at_s + random.uniform(10.0, 90.0)
    kinds: tuple[Fault, ...] = (
        PodLoss(at_s, role),
        Reclaimed(at_s, role, random.uniform(5.0, 60.0)),
        SlowPod(at_s, until_s, role, random.uniform(1.2, 2.5)),
        MetricsGone(at_s, until_s, engine_share=random.random()),
        CapacityBlocked(at_s, until_s),
        SlowStarts(at_s, until_s, random.uniform(1.5, 4.0)),
    )
    return random.choice(kinds)


def _simulated(
    name: str,
    family: Family,
    what: str,
    simulated: Simulated,
    *,
    undone: str,
    may_lose: Loss = Loss.NOTHING,
    names: str | None = None,
    recovers_s: float = 180.0,
) -> Scenario:
    play: Play = in_simulator(simulated)
    return Scenario(
        name=name,
        family=family,
        where=Where.SIMULATOR,
        what=what,
        undone=undone,
        play=play,
        may_lose=may_lose,
        names=names,
        recovers_s=recovers_s,
        quick=True,
    )


METRICS = (
    _simulated(
        "metrics-gone",
        Family.METRICS,
        "Neither routers nor engines answer for 10 min, and the load triples meanwhile.",
        Simulated(
            fault_s=200.0,
            until_s=800.0,
            span_s=1100.0,
            rate=step(6.0, 18.0, at_s=400.0),
            faults=lambda _: (MetricsGone(200.0, 800.0),),
        ),
        undone="They answer again.",
        names=r"MetricsFresh=False",
    ),
    _simulated(
        "engines-silent",
        Family.METRICS,
        "Half of the engines do not tell their metrics for 4 min, while the load doubles.",
        Simulated(
            until_s=440.0,
            span_s=600.0,
            rate=step(8.0, 16.0, at_s=260.0),
            faults=lambda _: (MetricsGone(200.0, 440.0, routers=False, engine_share=0.5),),
        ),
        undone="They tell them again.",
        names=r"MetricsFresh=False|of \d+ (prefill|decode) pods",
    ),
    _simulated(
        "prometheus-lies",
        Family.METRICS,
        "Metrics are fresh, plausible and wrong: engines seem idle and five times as quick.",
        Simulated(until_s=500.0, span_s=700.0, rate=step(8.0, 16.0, at_s=260.0), distort=_lying),
        undone="They are right again after 5 min.",
    ),
    _simulated(
        "counters-reset",
        Family.METRICS,
        "Every total of every engine falls back to nothing twice a minute.",
        Simulated(until_s=440.0, span_s=600.0, rate=step(8.0, 16.0, at_s=260.0), distort=_reset),
        undone="They only grow again.",
    ),
    _simulated(
        "clock-skew",
        Family.METRICS,
        "Half of the engines' samples are 25 s old, the others come from 25 s in the future.",
        Simulated(until_s=440.0, span_s=600.0, rate=step(8.0, 16.0, at_s=260.0), distort=_skewed),
        undone="Clocks agree again.",
        names=r"fresh metrics from (only )?\d+ of",
    ),
)
CAPACITY = (
    _simulated(
        "no-room",
        Family.CAPACITY,
        "No node takes a new pod for 210 s, and the load grows fivefold.",
        Simulated(
            fault_s=100.0,
            until_s=310.0,
            span_s=560.0,
            rate=step(6.0, 30.0, at_s=100.0),
            faults=lambda _: (CapacityBlocked(90.0, 310.0),),
        ),
        undone="There is room again.",
        names=r"Unschedulable|no node",
    ),
    _simulated(
        "node-lost",
        Family.CAPACITY,
        "A node dies with two of four pods of each role.",
        Simulated(start=FOUR_EACH, rate=constant(20.0), until_s=201.0, faults=_node_lost),
        undone="Others are made on other nodes.",
        may_lose=Loss.BEGUN,
    ),
    _simulated(
        "spot-reclaimed",
        Family.CAPACITY,
        "A pod of each role is taken back with a notice of 30 s.",
        Simulated(until_s=201.0 + NOTICE_S, faults=_reclaimed),
        undone="Others are made at once.",
        may_lose=Loss.BEGUN,
    ),
    _simulated(
        "crash-loops",
        Family.CAPACITY,
        "One pod of each role crashes again and again, and the load doubles.",
        Simulated(
            fault_s=CRASH_FROM_S,
            until_s=500.0,
            span_s=700.0,
            rate=step(8.0, 16.0, at_s=260.0),
            distort=_crash_looping,
        ),
        undone="They start again after 5 min.",
        names=r"Crashing|starts another pod",
    ),
    _simulated(
        "budget-cut",
        Family.CAPACITY,
        "The budget is cut from 16 to 5 GPUs while the pool grows.",
        Simulated(
            span_s=600.0,
            rate=burst(constant(10.0), factor=3.0, begin_s=120.0, end_s=280.0),
            edited=with_budget(5),
        ),
        undone="It stays cut; the load falls.",
        names=r"gpuBudget",
        recovers_s=300.0,
    ),
    _simulated(
        "tenfold-step",
        Family.CAPACITY,
        "The load grows tenfold within a second.",
        Simulated(span_s=600.0, rate=step(4.0, 40.0, at_s=200.0)),
        undone="It stays.",
        names=r"decision: .*(prefill|decode)",
        recovers_s=240.0,
    ),
)
SEQUENCE = _simulated(
    "random-sequence",
    Family.CAPACITY,
    "Five faults of any kind at random times, some at once.",
    Simulated(
        fault_s=150.0, until_s=490.0, span_s=800.0, rate=constant(12.0), faults=random_faults
    ),
    undone="Each ends by itself.",
    may_lose=Loss.BEGUN,
    recovers_s=240.0,
)
