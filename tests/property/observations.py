"""Random pools, as hypothesis strategies: any mix of pods, gaps, garbage and load."""

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from tandem_operator.core.decide import decide
from tandem_operator.core.decision import Decision
from tandem_operator.core.memory import Memory
from tandem_operator.core.objective.insurance import Cover
from tandem_operator.core.objective.promise import Promise
from tandem_operator.core.observation import (
    ArrivalSecond,
    EngineSample,
    FinishedSecond,
    Hardware,
    Latency,
    Leg,
    ModelShape,
    Observation,
    PodPhase,
    PodState,
    Quantiles,
    RouterReport,
    StartUp,
)
from tandem_operator.core.observe.demand_history import DemandHistory
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import Insurance, Mode, PoolSpec, RoleSpec

START_S = 1_790_000_000.0
BUCKETS = 3

roles = st.sampled_from(list(Role))
# None, the live router's, and all.
insurances = st.sampled_from(
    [Insurance(), Insurance(True, True), Insurance(True, False), Insurance(False, True)]
)
amounts = st.floats(0, 1e6) | st.sampled_from([float("nan"), float("inf"), -1.0])
maybe_amounts = st.none() | amounts
tallies = st.integers(0, 500)
CAUSES = ("router_queue", "prefill", "decode_admission", "decode_step", "transfer", "error", "new")


@st.composite
def specs(draw: st.DrawFn) -> PoolSpec:
    """Draw a valid spec: the budget, if any, covers the minimum of both roles."""
    bounds = {}
    for role in Role:
        low = draw(st.integers(1, 3))
        high = draw(st.integers(low, low + 6))
        gpus = draw(st.sampled_from([1, 1, 2, 4]))
        bounds[role] = RoleSpec(low, high, gpus, draw(st.sampled_from([True, True, True, False])))
    least = sum(b.min_replicas * b.gpus_per_replica for b in bounds.values())
    return PoolSpec(
        slo=Slo(
            ttft_s=draw(st.floats(0.01, 10)),
            ttft_s_per_thousand_prompt_tokens=draw(st.floats(0, 1)),
            tpot_s=draw(st.floats(0.001, 0.5)),
            attainment=draw(st.sampled_from([0.5, 0.9, 0.95, 0.999])),
        ),
        roles=bounds,
        mode=draw(st.sampled_from(list(Mode))),
        gpu_budget=draw(st.none() | st.integers(least, least + 12)),
        stabilization_s=draw(st.sampled_from([0.0, 10.0, 60.0, 300.0])),
        max_step=draw(st.none() | st.integers(1, 3)),
        max_model_len=4096,
        max_num_seqs=draw(st.integers(1, 256)),
        insurance=draw(insurances),
    )


@st.composite
def pod_states(draw: st.DrawFn, now_s: float) -> tuple[PodState, ...]:
    states = []
    for role in Role:
        for index in range(draw(st.integers(0, 5))):
            phase = draw(st.sampled_from([PodPhase.READY, PodPhase.READY, *PodPhase]))
            created_s = now_s - draw(st.floats(0, 3000))
            ready_s = min(now_s, created_s + 60.0) if phase is PodPhase.READY else None
            problem = draw(st.none() | st.just("ImagePullBackOff"))
            if phase is PodPhase.READY:
                problem = None
            revision = draw(st.sampled_from(["a", "b"]))
            waits = phase is PodPhase.UNSCHEDULED
            state = PodState(
                f"{role.value}-{index}",
                role,
                revision,
                phase,
                created_s,
                ready_s,
                problem,
                gates=draw(st.sampled_from([(), ("kueue",)])) if waits else (),
                scheduled_s=None if waits else draw(st.none() | st.floats(created_s, now_s)),
            )
            states.append(state)
    return tuple(states)


@st.composite
def engine_samples(draw: st.DrawFn, pods: tuple[PodState, ...], now_s: float) -> EngineSample:
    pod = draw(st.sampled_from(pods))
    return EngineSample(
        pod=pod.name,
        role=pod.role,
        sampled_s=now_s - draw(st.sampled_from([0.0, 0.0, 3.0, 100.0])),
        running=draw(amounts),
        waiting=draw(amounts),
        kv_usage_ratio=draw(maybe_amounts),
        kv_capacity_tokens=draw(maybe_amounts),
        itl_sum_s=draw(maybe_amounts),
        itl_count=draw(maybe_amounts),
        transfer_sum_s=draw(maybe_amounts),
        transfer_count=draw(maybe_amounts),
        start_up=draw(st.none() | start_ups()),
    )


widths = st.sampled_from([4, 8, 16, 32])
devices = st.sampled_from(["cpu", "NVIDIA L4", "NVIDIA H100 80GB HBM3"])


@st.composite
def start_ups(draw: st.DrawFn) -> StartUp:
    seconds = st.floats(1e-6, 100.0)
    sizes = ((32.0, 1024.0), (1.0, 64.0))
    prefill, steps = (
        tuple((at, draw(seconds)) for at in pair[: draw(st.integers(0, 2))]) for pair in sizes
    )
    amounts = st.floats(1.0, 1e18)
    shape = draw(st.none() | st.builds(ModelShape, amounts, amounts, amounts, amounts, widths))
    hardware = draw(st.none() | st.builds(Hardware, devices, st.integers(1, 9)))
    return StartUp(prefill=prefill, steps=steps, shape=shape, hardware=hardware)


@st.composite
def reports(draw: st.DrawFn, pods: tuple[PodState, ...], now_s: float) -> RouterReport:
    rate = draw(st.sampled_from([0, 0, 1, 3, 12, 200]))
    tokens = draw(st.sampled_from([0, 5, 300, 4000]))
    span_s = draw(st.sampled_from([0, 10, 60, 300]))
    sparse = draw(st.integers(1, 4))
    seconds = [int(now_s) - s for s in range(span_s, 0, -1) if s % sparse == 0]
    cached = draw(st.just(()) | st.tuples(*[st.integers(0, 10**6)] * 3))
    arrivals = tuple(
        ArrivalSecond(s, (0, rate, s % 2), (0, rate * tokens, s % 2 * 9), rate, cached)
        for s in seconds
    )
    output_tokens = draw(st.sampled_from([0, 50, 9000]))
    blame = draw(st.dictionaries(st.sampled_from(CAUSES), st.integers(0, 40), max_size=3))
    good = draw(tallies)
    finished = tuple(
        FinishedSecond(
            second=s,
            finished=good + sum(blame.values()),
            good=good,
            late_ttft=1,
            late_tpot=1,
            failed=0,
            shed=0,
            gone=1,
            output_tokens=output_tokens,
            output_tokens_squared=output_tokens * 60,
            blame=blame,
        )
        for s in seconds[::7]
    )
    legs = tuple(
        Leg(
            pod=pod.name,
            role=pod.role,
            busy_s=draw(amounts),
            requests=draw(tallies),
            prompt_tokens=draw(st.integers(0, 10**6)),
            cached_tokens=draw(st.integers(0, 10**6)),
            prompt_token_contexts=draw(amounts),
            output_tokens=draw(tallies),
        )
        for pod in pods
    )
    return RouterReport(
        router=draw(st.sampled_from(["r1", "r2"])),
        sampled_s=now_s - draw(st.sampled_from([0.0, 0.0, 0.0, 2.0, 300.0])),
        started_s=now_s - draw(st.sampled_from([0.0, 50.0, 400.0, 2000.0])),
        bucket_edges_tokens=(128, 2048),
        arrivals=arrivals,
        finished=finished,
        queued_requests=draw(tallies),
        queued_prompt_tokens=draw(st.integers(0, 10**6)),
        prefill_requests=draw(tallies),
        decode_requests=draw(tallies),
        legs=legs,
        ended=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def observations(draw: st.DrawFn, now_s: float) -> Observation:
    pods = draw(pod_states(now_s))
    engines: tuple[EngineSample, ...] = ()
    if pods:
        engines = tuple(draw(st.lists(engine_samples(pods, now_s), max_size=8)))
    quantiles = st.builds(Quantiles, maybe_amounts, maybe_amounts, maybe_amounts)
    return Observation(
        replicas=draw(st.dictionaries(roles, st.integers(0, 8))),
        pods=pods,
        engines=engines,
        routers=tuple(draw(st.lists(reports(pods, now_s), max_size=2))),
        router_pods=draw(st.integers(0, 3)),
        latency=draw(st.none() | st.builds(Latency, st.just(now_s), quantiles, quantiles)),
        turned_away=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def promises(draw: st.DrawFn) -> Promise:
    """Draw an insurance against a past, whatever the bounds, the budget and the traffic say."""
    size = draw(st.integers(0, 40))

    def column(most: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(-1, most), min_size=size, max_size=size)))

    floors, steady = draw(st.dictionaries(roles, st.integers(1, 30))), draw(st.booleans())
    cover = Cover(
        floors={role: floors.get(role, 1) for role in Role},
        steady=steady,
        hold_s=draw(st.sampled_from([0.0, 60.0, 1800.0])),
        end_s=draw(st.none() | st.just(int(START_S))),
        recurring=steady or draw(st.booleans()),
        most=draw(st.dictionaries(roles, st.integers(1, 30))),
        busy=draw(st.dictionaries(roles, st.floats(0.0, 10.0))),
        since_s=draw(st.none() | st.just(int(START_S))),
    )
    history = DemandHistory(
        end_s=int(START_S),
        requests=column(4000),
        prompt_tokens=column(10**6),
        peaks=column(4000),
        wants={role: column(30) for role in Role},
    )
    return Promise(cover=cover, history=history)


@dataclass(frozen=True)
class History:
    """A spec and what was seen under it, tick by tick."""

    spec: PoolSpec
    ticks: tuple[tuple[float, Observation], ...]


@st.composite
def histories(draw: st.DrawFn, *, most: int = 6) -> History:
    now_s, ticks = START_S, []
    for _ in range(draw(st.integers(1, most))):
        now_s += draw(st.sampled_from([0.0, 0.5, 5.0, 5.0, 5.0, 40.0, 4000.0, -3.0]))
        ticks.append((now_s, draw(observations(now_s))))
    return History(draw(specs()), tuple(ticks))


def run(
    history: History, memory: Memory | None = None
) -> Iterator[tuple[float, Observation, Decision, Memory]]:
    """Yield each tick with its decision, and the memory after it."""
    memory = memory or Memory()
    for now_s, seen in history.ticks:
        decision, memory = decide(history.spec, seen, memory, now_s)
        yield now_s, seen, decision, memory


def gpus_held_and_grown(spec: PoolSpec, seen: Observation, decision: Decision) -> tuple[int, int]:
    """Return the GPUs that pods hold or may claim, and those to come on top.

    Terminating pods count.
    """
    held, grown = 0, 0
    for role, plan in decision.roles.items():
        gpus, managed = spec.roles[role].gpus_per_replica, spec.roles[role].managed
        alive = [pod for pod in seen.pods if pod.role is role]
        leaving = sum(1 for pod in alive if pod.phase is PodPhase.TERMINATING)
        have = max(plan.current, len(alive) - leaving)
        held += gpus * (have + leaving)
        grown += gpus * max(0, plan.to - have) if managed else 0
    return held, grown
