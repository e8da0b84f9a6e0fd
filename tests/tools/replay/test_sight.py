"""The core sees of the simulated pool what a live operator would see."""

from typing import Any

import pytest

from benchmarks.replay.policy import pool_spec
from benchmarks.replay.setup import Setup
from benchmarks.replay.sight import EPOCH_S, Sight
from tandem_operator.core.observation import Observation, PodPhase
from tandem_operator.core.role import Role
from tandem_operator.sim.traces.trace import TraceRequest

SETUP = Setup(
    timing="bf16",
    ttft_s=0.5,
    itl_s=0.02,
    startup_s=60.0,
    start=(1, 1),
    gpu_budget=24,
    max_model_len=32_768,
)
REQUESTS = [TraceRequest(0.2, 100, 5), TraceRequest(0.9, 3000, 5), TraceRequest(2.5, 100, 5)]


def snapshot(at_s: float, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "now_ms": at_s * 1000.0,
        "prefill_fpm_snapshots": [],
        "decode_fpm_snapshots": [],
        "traffic": {"ttft_count": 0, "avg_ttft_ms": 0.0, "avg_itl_ms": 0.0, "avg_osl": 0.0},
    }
    for role in Role:
        base |= {f"active_{role.value}_ids": [0], f"non_draining_{role.value}_count": 1}
        base |= {f"starting_{role.value}_ids": [], f"draining_{role.value}_ids": []}
    return base | changes


def prefill_pass(**changes: float) -> dict[str, float]:
    return {
        "worker_id": 0,
        "wall_time": 0.06,
        "num_prefill_requests": 1,
        "sum_prefill_tokens": 3000,
        "sum_prefill_kv_tokens": 0,
        "num_queued_prefill": 2,
        "sum_queued_prefill_tokens": 5000,
    } | changes


def decode_step(**changes: float) -> dict[str, float]:
    return {
        "worker_id": 0,
        "wall_time": 0.01,
        "num_decode_requests": 20,
        "sum_decode_kv_tokens": 44_800,
        "num_queued_decode": 0,
    } | changes


def ended(*, ttft_ms: float = 100.0, itl_ms: float = 10.0, count: int = 1) -> dict[str, float]:
    return {"ttft_count": count, "avg_ttft_ms": ttft_ms, "avg_itl_ms": itl_ms, "avg_osl": 200.0}


def seen(*snapshots: dict[str, Any]) -> Observation:
    sight = Sight(REQUESTS, SETUP)
    for each in snapshots:
        sight.take(each)
    return sight.observation({Role.PREFILL: 1, Role.DECODE: 1})


def test_only_seconds_that_are_over_are_seen() -> None:
    arrivals = seen(snapshot(0.5), snapshot(2.7)).routers[0].arrivals

    assert [(row.second - EPOCH_S, sum(row.requests)) for row in arrivals] == [(0, 2)]
    assert arrivals[0].prompt_tokens == (100, 0, 0, 3000, 0, 0)


def test_a_prompt_of_an_edge_length_is_in_the_bucket_below_it() -> None:
    sight = Sight([TraceRequest(0.1, 128, 5), TraceRequest(0.2, 129, 5)], SETUP)

    sight.take(snapshot(1.5))

    row = sight.observation({Role.PREFILL: 1, Role.DECODE: 1}).routers[0].arrivals[0]
    assert row.requests == (1, 1, 0, 0, 0, 0)


def test_a_new_worker_starts_and_becomes_ready_when_the_simulator_says_so() -> None:
    pods = seen(
        snapshot(1.0),
        snapshot(2.0, starting_decode_ids=[1]),
        snapshot(62.0, active_decode_ids=[0, 1]),
    ).pods

    new = next(pod for pod in pods if pod.name == "decode-1")
    assert new.phase is PodPhase.READY
    assert new.ready_s is not None
    assert new.ready_s - new.created_s == pytest.approx(60.0)


def test_a_draining_worker_serves_no_request_and_still_holds_its_gpu() -> None:
    observation = seen(
        snapshot(1.0), snapshot(2.0, active_prefill_ids=[], draining_prefill_ids=[0])
    )

    pod = next(pod for pod in observation.pods if pod.role is Role.PREFILL)
    assert pod.phase is PodPhase.TERMINATING
    assert all(sample.pod != pod.name for sample in observation.engines)


def test_forward_passes_become_the_totals_that_engines_export() -> None:
    steps = [
        snapshot(
            at / 10.0,
            prefill_fpm_snapshots=[prefill_pass()],
            decode_fpm_snapshots=[decode_step()],
        )
        for at in range(1, 11)
    ]

    observation = seen(*steps)

    leg = observation.routers[0].legs[0]
    assert (leg.requests, leg.prompt_tokens) == (10, 30_000)
    assert leg.busy_s == pytest.approx(0.6)
    assert leg.prompt_token_contexts == pytest.approx(10 * 3000 * 1500)
    decode = next(s for s in observation.engines if s.role is Role.DECODE)
    assert decode.itl_sum_s is not None
    assert decode.itl_count is not None
    assert decode.itl_sum_s == pytest.approx(20.0)
    assert decode.itl_sum_s / decode.itl_count == pytest.approx(0.01)
    assert decode.kv_usage_ratio == pytest.approx(0.05)
    assert observation.routers[0].queued_prompt_tokens == 5000


def test_lateness_is_counted_and_blamed() -> None:
    observation = seen(
        snapshot(1.0, traffic=ended(count=3)),
        snapshot(
            1.1, traffic=ended(ttft_ms=900.0, count=2), prefill_fpm_snapshots=[prefill_pass()]
        ),
        snapshot(1.2, traffic=ended(itl_ms=25.0)),
        snapshot(
            1.3,
            traffic=ended(ttft_ms=900.0),
            decode_fpm_snapshots=[decode_step(num_queued_decode=4)],
        ),
    )

    rows = observation.routers[0].finished
    assert sum(row.finished for row in rows) == 7
    assert sum(row.good for row in rows) == 3
    blame: dict[str, int] = {}
    for row in rows:
        for cause, count in row.blame.items():
            blame[cause] = blame.get(cause, 0) + count
    assert blame == {"engine_queue": 2, "decode_step": 1, "decode_admission": 1}


def test_nothing_finished_is_unknown_and_not_zero() -> None:
    observation = seen(snapshot(1.0))

    assert observation.latency is None
    assert observation.routers[0].finished == ()


def test_the_pool_has_the_defaults_of_the_api() -> None:
    spec = pool_spec(SETUP)

    assert spec.gpu_budget == 24
    assert spec.max_step is None
    assert spec.slo.attainment == 0.95
