"""The pods that get new requests, and the router's behaviour while there are none."""

import asyncio

from tests.unit.router.pool import Pool, until


async def test_a_leaving_pod_gets_no_new_request_but_finishes_what_it_has(pool: Pool) -> None:
    gate = pool.engines["d0"].script.hold = asyncio.Event()
    running = asyncio.create_task(pool.stream())
    await pool.engines["d0"].wait_seen(1)

    pool.show("d0", leaving=True)
    await pool.add("d1")
    await pool.stream()
    gate.set()

    assert (await running)[-1] == "[DONE]"
    assert len(pool.engines["d0"].seen) == 1
    assert len(pool.engines["d1"].seen) == 1
    assert pool.metric("tandem_router_pods", role="decode", state="leaving") == 1
    assert pool.metric("tandem_router_pods", role="decode", state="ready") == 1


async def test_a_pod_that_is_not_ready_gets_nothing(pool: Pool) -> None:
    await pool.add("p1")
    pool.show("p0", ready=False)

    for _ in range(4):
        await pool.stream()

    assert pool.engines["p0"].seen == []
    assert len(pool.engines["p1"].seen) == 4


async def test_a_refusing_pod_gets_work_again_once_it_answers_a_probe(pool: Pool) -> None:
    engine = pool.engines["p0"]
    await engine.stop()
    await pool.stream()
    assert pool.metric("tandem_router_pods", role="prefill", state="ready") == 0

    await engine.start(engine.port)
    await until(lambda: pool.metric("tandem_router_pods", role="prefill", state="ready") == 1)
    await pool.stream()

    assert len(engine.seen) == 1


async def test_a_refusing_pod_gets_work_again_once_it_is_seen_ready(pool: Pool) -> None:
    engine = pool.engines["p0"]
    await engine.stop()
    await pool.stream()

    await engine.start(engine.port)
    pool.show("p0")
    await pool.stream()

    assert len(engine.seen) == 1


async def test_requests_are_held_until_a_decode_pod_appears(bare_pool: Pool) -> None:
    await bare_pool.add("p0")
    held = asyncio.create_task(bare_pool.stream())
    await until(lambda: bare_pool.router.waiting.requests == 1)

    await bare_pool.add("d0")

    assert (await held)[-1] == "[DONE]"
    assert bare_pool.engines["d0"].seen[0].body["kv_transfer_params"]["remote_engine_id"] == "p0"


async def test_requests_held_for_too_long_are_told_when_to_come_back(bare_pool: Pool) -> None:
    bare_pool.configure(timeouts={"first_token_s": 0.1})
    await bare_pool.add("p0")

    status, answer, headers = await bare_pool.post({"model": "tiny", "prompt": "x"})

    assert status == 503
    assert answer["error"]["code"] == "no_decode_pod"
    assert int(headers["Retry-After"]) >= 1
    assert bare_pool.engines["p0"].seen == []
    assert bare_pool.metric("tandem_router_requests_total", outcome="shed") == 1
    assert bare_pool.metric("tandem_router_blame_total", cause="decode_admission") == 1


async def test_a_retry_waits_for_a_decode_pod_inside_its_deadline(pool: Pool) -> None:
    await pool.engines["d0"].stop()
    answer = asyncio.create_task(pool.stream())
    await until(lambda: pool.metric("tandem_router_pods", role="decode", state="ready") == 0)

    await pool.add("d1")

    assert (await answer)[-1] == "[DONE]"


async def test_work_goes_to_the_pod_with_the_fewest_outstanding_tokens(pool: Pool) -> None:
    await pool.add("p1")
    gate = asyncio.Event()
    for name in ("p0", "p1"):
        pool.engines[name].script.hold = gate

    long = asyncio.create_task(pool.stream([5] * 1000))
    await until(lambda: len(pool.engines["p0"].seen) + len(pool.engines["p1"].seen) == 1)
    busy, idle = ("p0", "p1") if pool.engines["p0"].seen else ("p1", "p0")
    short = [asyncio.create_task(pool.stream([5] * 10)) for _ in range(3)]
    await pool.engines[idle].wait_seen(3)
    gate.set()
    await asyncio.gather(long, *short)

    assert len(pool.engines[busy].seen) == 1


async def test_a_pod_whose_address_changed_is_another_pod(pool: Pool) -> None:
    old = pool.engines["d0"]
    await pool.add("d0")

    await pool.stream()

    assert old.seen == []
    assert len(pool.engines["d0"].seen) == 1
