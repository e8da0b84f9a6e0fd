"""A request that cannot have a first token in time is refused early; 504 is for hangs."""

import asyncio

import pytest

from tandem_routing.time_shares import begin_by_s, needed_s
from tests.unit.router.fake_engine import Script
from tests.unit.router.pool import Pool

ONE_SLOT = {"prefill_requests_per_pod": 1}


async def test_a_request_that_waited_too_long_for_its_bound_is_refused_and_not_sent(
    pool: Pool,
) -> None:
    pool.configure(limits=ONE_SLOT)
    engine = pool.engines["p0"]
    engine.script.prefill_s = 1.0
    for _ in range(3):
        await pool.complete()
    gate = engine.script.hold = asyncio.Event()
    first = asyncio.create_task(pool.complete())
    await engine.wait_seen(4)
    pool.configure(limits=ONE_SLOT, timeouts={"first_token_s": 4.0})
    began_s = asyncio.get_running_loop().time()

    status, answer, headers = await pool.post({"model": "tiny", "prompt": "one two three"})

    took_s = asyncio.get_running_loop().time() - began_s
    assert (status, answer["error"]["code"]) == (503, "queue_timeout")
    assert int(headers["Retry-After"]) > 0
    # Half of its time would not be enough for the prefill.
    assert 2.0 <= took_s < 4.0
    assert len(engine.seen) == 4
    assert pool.metric("tandem_router_requests_total", outcome="shed") == 1
    assert pool.metric("tandem_router_requests_total", outcome="failed") == 0
    assert pool.metric("tandem_router_blame_total", cause="router_queue") == 1
    gate.set()
    await first


async def test_a_pod_that_serves_other_requests_is_busy_and_one_that_serves_none_hangs(
    pool: Pool,
) -> None:
    pool.configure(timeouts={"first_token_s": 3.0})
    engine = pool.engines["d0"]
    engine.script.hold = asyncio.Event()
    starved = asyncio.create_task(pool.post({"model": "tiny", "prompt": "x"}))
    await engine.wait_seen(1)
    engine.script.hold = None
    await pool.complete()

    status, answer, headers = await starved

    assert (status, answer["error"]["code"]) == (503, "engine_busy")
    assert int(headers["Retry-After"]) > 0
    assert pool.metric("tandem_router_requests_total", outcome="shed") == 1
    engine.script.freeze = True
    assert (await pool.complete())[0] == 504


async def test_a_pod_that_was_given_too_little_time_does_not_hang(pool: Pool) -> None:
    pool.engines["d0"].script.first_token_s = 0.9
    for _ in range(3):
        await pool.complete()
    pool.configure(timeouts={"first_token_s": 1.5})
    pool.engines["p0"].script = Script(prefill_s=0.6)
    pool.engines["d0"].script.first_token_s = 1.2

    status, answer = await pool.complete()

    assert (status, answer["error"]["code"]) == (503, "engine_busy")


@pytest.mark.parametrize(
    ("expected_s", "now", "by_s"),
    [
        (0.0, 0.0, 114.0),
        (1.0, 0.0, 114.0),
        (10.0, 0.0, 100.0),
        (50.0, 0.0, 60.0),
        (1e6, 0.0, 60.0),
        (10.0, 90.0, 105.0),
        (10.0, 130.0, 120.0),
    ],
)
def test_what_is_left_is_what_is_needed_twice_over_and_never_more_than_half(
    expected_s: float, now: float, by_s: float
) -> None:
    needed = needed_s(expected_s, whole_s=120.0)

    assert begin_by_s(120.0, needed=needed, now=now) == by_s
