from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_engine.serve.drain import Drain, Drained
from tandem_engine.serve.vllm_metrics import EngineLoad

IDLE = EngineLoad(running=0, waiting=0, kv_usage_share=0.0, finished=7)
BUSY = replace(IDLE, running=1, kv_usage_share=0.1)
LEASED = replace(IDLE, kv_usage_share=0.1)


@pytest.fixture
def drain() -> Drain:
    return Drain(started_s=100.0, timeout_s=300.0, settle_s=3.0, lease_s=30.0)


def test_an_idle_engine_waits_only_until_routers_have_noticed(drain: Drain) -> None:
    assert drain.observe(IDLE, now_s=100.0) is None
    assert drain.observe(IDLE, now_s=102.9) is None
    assert drain.observe(IDLE, now_s=103.0) is Drained.IDLE


def test_a_running_request_is_waited_for(drain: Drain) -> None:
    assert drain.observe(BUSY, now_s=100.0) is None
    assert drain.observe(BUSY, now_s=200.0) is None
    assert drain.observe(IDLE, now_s=200.5) is None
    assert drain.observe(IDLE, now_s=203.5) is Drained.IDLE


def test_a_request_that_came_and_went_between_two_looks_starts_the_quiet_time_anew(
    drain: Drain,
) -> None:
    drain.observe(IDLE, now_s=100.0)
    drain.observe(replace(IDLE, finished=8), now_s=102.0)

    assert drain.observe(replace(IDLE, finished=8), now_s=103.0) is None
    assert drain.observe(replace(IDLE, finished=8), now_s=106.0) is Drained.IDLE


def test_blocks_that_a_decode_engine_may_still_pull_are_kept(drain: Drain) -> None:
    assert drain.observe(LEASED, now_s=100.0) is None
    assert drain.observe(LEASED, now_s=131.0) is None
    assert drain.observe(IDLE, now_s=131.5) is Drained.IDLE


def test_unreleased_blocks_do_not_hold_the_pod_for_ever(drain: Drain) -> None:
    drain.observe(LEASED, now_s=100.0)

    assert drain.observe(LEASED, now_s=160.0) is Drained.LEASES_OVER


def test_the_deadline_ends_every_wait(drain: Drain) -> None:
    assert drain.observe(BUSY, now_s=399.9) is None
    assert drain.observe(BUSY, now_s=400.0) is Drained.DEADLINE
    assert drain.observe(None, now_s=400.0) is Drained.DEADLINE


def test_an_unknown_load_is_not_taken_for_none(drain: Drain) -> None:
    for second in range(100, 399):
        assert drain.observe(None, now_s=float(second)) is None


loads = st.builds(
    EngineLoad,
    running=st.sampled_from([0.0, 0.0, 1.0, 9.0]),
    waiting=st.sampled_from([0.0, 0.0, 2.0]),
    kv_usage_share=st.sampled_from([0.0, 0.0, 0.01]),
    finished=st.integers(0, 3).map(float),
)


@given(st.lists(st.tuples(st.floats(0.01, 20.0), st.none() | loads), max_size=60))
def test_no_engine_with_requests_stops_before_the_deadline_and_none_outlives_it(
    looks: list[tuple[float, EngineLoad | None]],
) -> None:
    drain = Drain(started_s=0.0, timeout_s=200.0, settle_s=3.0, lease_s=30.0)
    now_s = 0.0
    for step_s, load in looks:
        now_s += step_s
        done = drain.observe(load, now_s=now_s)
        assert (done is Drained.DEADLINE) == (now_s >= 200.0)
        if done in (Drained.IDLE, Drained.LEASES_OVER):
            assert load is not None
            assert load.running == load.waiting == 0
            assert now_s >= 3.0
            assert done is not Drained.IDLE or load.kv_usage_share == 0
        if done is not None:
            return
