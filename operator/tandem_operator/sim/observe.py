"""The operator's view of a simulated pool: the same plain data as from a real one."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import ceil

from tandem_operator.core.observation import (
    ClassWindow,
    EngineSample,
    Leg,
    Observation,
    PodState,
    RouterReport,
)
from tandem_operator.core.role import Role
from tandem_operator.sim.cluster.pods import SimulatedPod
from tandem_operator.sim.engines.decode_pod import DecodePod
from tandem_operator.sim.engines.own_measurement import measured_at_start
from tandem_operator.sim.engines.prefill_pod import PrefillPod
from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.policy import EPOCH_S
from tandem_operator.sim.pool import Pool
from tandem_routing.history import BUCKET_EDGES_TOKENS, OVERDUE_S, RESULT_WINDOW_S

REVISION = "r1"
UNSCHEDULED = "Unschedulable: no node has a free GPU"


def observe(pool: Pool) -> Observation:
    """Return everything as it is now."""
    pool.catch_up()
    now_s = pool.clock.now_s
    return with_pods(
        pool,
        Observation(
            replicas={},
            pods=(),
            engines=(
                *(_prefill_sample(pod, now_s) for pod in pool.prefill.serving),
                *(_decode_sample(pod, now_s) for pod in pool.decode.serving),
            ),
            routers=(_report(pool, now_s),),
            router_pods=1,
            latency=pool.ledger.latency(now_s),
        ),
    )


def with_pods(pool: Pool, seen: Observation) -> Observation:
    """Return older metrics with the present pods and counts: the API server answers at once."""
    fleets = {role: pool.fleet(role) for role in Role}
    return replace(
        seen,
        replicas={role: fleet.asked for role, fleet in fleets.items()},
        pods=tuple(_state(pod, role) for role, fleet in fleets.items() for pod in fleet.pods),
    )


def without_metrics(seen: Observation, *, routers: bool, engine_share: float) -> Observation:
    """Return the observation without these metrics; silent routers also hide latencies."""
    silent = ceil(engine_share * len(seen.engines))
    return replace(
        seen,
        engines=seen.engines[silent:],
        routers=() if routers else seen.routers,
        latency=None if routers else seen.latency,
    )


def _state(pod: SimulatedPod[PrefillPod] | SimulatedPod[DecodePod], role: Role) -> PodState:
    return PodState(
        name=pod.name,
        role=role,
        revision=REVISION,
        phase=pod.phase,
        created_s=pod.created_s + EPOCH_S,
        # Pods that existed from the start show no start-up time.
        ready_s=None if pod.ready_s is None else pod.ready_s + EPOCH_S,
        problem=UNSCHEDULED if pod.bound_s is None else None,
    )


def _prefill_sample(pod: SimulatedPod[PrefillPod], now_s: float) -> EngineSample:
    engine = pod.engine
    return EngineSample(
        pod=pod.name,
        role=Role.PREFILL,
        sampled_s=now_s + EPOCH_S,
        running=float(engine.running),
        waiting=float(engine.requests - engine.running),
        kv_usage_ratio=min(1.0, engine.outstanding_tokens / engine.profile.kv_capacity_tokens),
        kv_capacity_tokens=float(engine.profile.kv_capacity_tokens),
        start_up=measured_at_start(engine.profile, Role.PREFILL),
    )


def _decode_sample(pod: SimulatedPod[DecodePod], now_s: float) -> EngineSample:
    engine = pod.engine
    capacity = engine.profile.kv_capacity_tokens
    return EngineSample(
        pod=pod.name,
        role=Role.DECODE,
        sampled_s=now_s + EPOCH_S,
        running=float(engine.running),
        waiting=float(engine.waiting(now_s)),
        kv_usage_ratio=engine.kv_tokens / capacity,
        kv_capacity_tokens=float(capacity),
        itl_sum_s=engine.itl_sum_s,
        itl_count=float(engine.itl_count),
        generation_tokens_total=float(engine.tokens_made),
        transfer_sum_s=engine.transfer_sum_s,
        transfer_count=float(engine.transfer_count),
        start_up=measured_at_start(engine.profile, Role.DECODE),
    )


def _report(pool: Pool, now_s: float) -> RouterReport:
    prefill = sum(pod.engine.requests for pod in pool.prefill.pods)
    decode = sum(pod.engine.requests for pod in pool.decode.pods)
    held, woken_s = pool.router.held(), pool.ledger.woken_token_s
    waiting = [flight for flight in pool.router.queue if flight.guaranteed]
    return RouterReport(
        router="router-1",
        sampled_s=now_s + EPOCH_S,
        started_s=EPOCH_S,
        bucket_edges_tokens=BUCKET_EDGES_TOKENS,
        arrivals=pool.ledger.arrivals(now_s),
        best_effort=pool.ledger.best_effort(now_s),
        finished=pool.ledger.finished(now_s),
        queued_requests=len(pool.router.queue),
        queued_prompt_tokens=pool.router.queue.guaranteed_prompt_tokens,
        prefill_requests=prefill,
        decode_requests=decode + len(pool.router.legs.between),
        legs=tuple(_legs(pool, now_s)),
        held_prompt_tokens=sum(flight.request.prompt_tokens for flight in held),
        overdue_requests=_overdue(waiting, now_s),
        held_overdue_requests=_overdue(held, now_s),
        woken_token_s=None if woken_s is None else woken_s + EPOCH_S,
        classes=tuple(_classes(pool, now_s)),
    )


def _classes(pool: Pool, now_s: float) -> Iterator[ClassWindow]:
    for each in pool.spec.classes:
        found = pool.ledger.classes.window(each.name, second=int(now_s))
        yield ClassWindow(
            name=each.name,
            window_s=float(RESULT_WINDOW_S),
            finished=found.finished,
            good=found.good,
            output_tokens=found.output_tokens,
            good_output_tokens=found.good_output_tokens,
            queued_requests=sum(f.slo_class is each for f in pool.router.queue),
        )


def _overdue(flights: Iterable[SimulatedFlight], now_s: float) -> int:
    """Return the number of requests that became late within the last minute."""
    return sum(
        not flight.given_s and now_s - OVERDUE_S < flight.deadline_s <= now_s for flight in flights
    )


def _legs(pool: Pool, now_s: float) -> Iterator[Leg]:
    for pod in pool.prefill.pods:
        totals = pod.engine.totals
        yield Leg(
            pod=pod.name,
            role=Role.PREFILL,
            busy_s=totals.busy_until(now_s),
            requests=totals.requests,
            prompt_tokens=totals.prompt_tokens,
            cached_tokens=totals.cached_tokens,
            prompt_token_contexts=totals.prompt_token_contexts,
            output_tokens=totals.requests,
        )
