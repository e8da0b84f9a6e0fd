"""A pool at zero: requests are held for as long as a wake is known to take, and told honestly."""

import asyncio

import aiohttp

from tandem_contracts.names import ARRIVAL_PATH
from tandem_operator.metrics.doorbells import Doorbells
from tandem_operator.metrics.source import RouterTarget
from tests.unit.router.pool import Pool, until

PATIENCE_S = 15.0
"""Less than the time after which a question that nobody answered ends."""
SOON = {"first_token_s": 0.3, "request_s": 20.0}


def to_zero(pool: Pool) -> None:
    """Let all engine pods be gone, as after a scale-down."""
    pool.router.fleet.replace(())


async def test_a_request_that_finds_a_pool_at_zero_is_held_until_it_has_woken(pool: Pool) -> None:
    to_zero(pool)
    pool.configure(timeouts=SOON, wake_s=5.0, slo={"ttft_s": 0.2, "tpot_s": 5.0})
    held = asyncio.create_task(pool.complete())
    await until(lambda: pool.router.waiting.requests == 1)
    await asyncio.sleep(0.5)

    pool.show("d0")
    pool.show("p0")
    status, _ = await held

    await pool.idle()
    assert status == 200
    assert pool.metric("tandem_router_requests_total", outcome="late_ttft") == 1
    assert pool.metric("tandem_router_blame_total", cause="wake") == 1
    row = (await pool.arrivals())["finished"][-1][1]
    assert (row["good"], row["blame"]) == (0, {"wake": 1})


async def test_the_parts_of_a_held_request_sum_to_its_ttft(pool: Pool) -> None:
    to_zero(pool)
    pool.configure(wake_s=5.0)
    held = asyncio.create_task(pool.complete())
    await until(lambda: pool.router.waiting.requests == 1)
    # Far longer than what comes after it, on a busy machine too.
    await asyncio.sleep(2.0)
    pool.show("d0")
    await held
    await pool.idle()

    name = "tandem_router_ttft_part_seconds_sum"
    causes = (
        *("router_queue", "engine_queue", "prefill", "transfer", "decode_admission"),
        "wake",
    )
    parts = {cause: pool.metric(name, part=cause) or 0.0 for cause in causes}
    whole = pool.metric("tandem_router_ttft_seconds_sum")
    assert whole is not None
    assert abs(sum(parts.values()) - whole) < 1e-6
    assert parts["wake"] > 0.5 * whole
    assert parts["decode_admission"] < 0.5 * whole


async def test_a_pool_that_never_sleeps_has_no_series_of_a_wake(pool: Pool) -> None:
    await pool.complete()

    assert "wake" not in await pool.metrics()


async def test_a_request_that_cannot_wait_for_the_wake_gets_a_retry_after(pool: Pool) -> None:
    to_zero(pool)
    pool.configure(timeouts={"first_token_s": 0.2}, wake_s=0.1)

    status, answer, headers = await pool.post({"model": "tiny", "prompt": "x"})

    assert (status, answer["error"]["code"]) == (503, "pool_waking")
    assert int(headers["Retry-After"]) >= 1


async def test_a_request_whose_time_ends_before_the_wake_is_told_at_once_and_counts(
    pool: Pool,
) -> None:
    to_zero(pool)
    pool.configure(timeouts={"request_s": 20.0}, wake_s=90.0)

    status, answer, headers = await pool.post({"model": "tiny", "prompt": "x"})

    assert (status, answer["error"]["code"]) == (503, "pool_waking")
    assert 80 <= int(headers["Retry-After"]) <= 90
    assert sum(sum(row[1]) for row in (await pool.arrivals())["arrivals"]) == 1
    await pool.idle()
    assert pool.metric("tandem_router_blame_total", cause="wake") == 1
    assert pool.metric("tandem_router_blame_total", cause="router_queue") == 0


async def test_without_a_known_wake_the_usual_deadline_holds(pool: Pool) -> None:
    to_zero(pool)
    pool.configure(timeouts={"first_token_s": 0.2})

    status, answer, _ = await pool.post({"model": "tiny", "prompt": "x"})

    assert (status, answer["error"]["code"]) == (503, "no_decode_pod")


async def test_engines_that_crash_are_no_sleep(pool: Pool) -> None:
    pool.configure(timeouts={"first_token_s": 0.2}, wake_s=5.0)
    pool.show("d0", ready=False)

    status, answer, _ = await pool.post({"model": "tiny", "prompt": "x"})

    assert (status, answer["error"]["code"]) == (503, "no_decode_pod")


async def test_a_client_that_gives_up_leaves_the_queue(pool: Pool) -> None:
    to_zero(pool)
    pool.configure(wake_s=5.0)
    held = asyncio.create_task(pool.complete())
    await until(lambda: pool.router.waiting.requests == 1)

    held.cancel()

    await until(lambda: pool.router.waiting.requests == 0)


async def test_the_bound_of_the_queue_holds_while_the_pool_wakes(pool: Pool) -> None:
    to_zero(pool)
    pool.configure(wake_s=15.0, limits={"queued_requests": 1})
    held = asyncio.create_task(pool.complete())
    await until(lambda: pool.router.waiting.requests == 1)

    status, answer, headers = await pool.post({"model": "tiny", "prompt": "x"})

    assert (status, answer["error"]["code"]) == (429, "queue_full")
    assert 10 <= int(headers["Retry-After"]) <= 15
    assert pool.metric("tandem_router_blame_total", cause="wake") == 1
    pool.show("d0")
    assert (await held)[0] == 200


async def test_the_model_stays_listed(pool: Pool) -> None:
    to_zero(pool)
    pool.configure(wake_s=5.0)

    async with pool.client.get(pool.url + "/v1/models") as response:
        assert [each["id"] for each in (await response.json())["data"]] == ["tiny"]
    assert await pool.probe("/ready") == 200


async def test_the_operator_hears_of_a_request_as_it_comes(pool: Pool) -> None:
    to_zero(pool)
    pool.configure(wake_s=5.0)
    rung = asyncio.Event()
    async with aiohttp.ClientSession() as session:
        bells: Doorbells[str] = Doorbells(session, ring=lambda _key: rung.set())
        router = RouterTarget("r0", "127.0.0.1", port=pool.router.internal_port)
        bells.listen("pool", [router])
        bells.listen("pool", [router])
        await asyncio.sleep(0.1)
        assert not rung.is_set()
        held = asyncio.create_task(pool.complete())

        async with asyncio.timeout(PATIENCE_S):
            await rung.wait()

        bells.listen("pool", ())
        await bells.close()
    pool.show("d0")
    assert (await held)[0] == 200


async def test_a_request_that_waits_already_is_reported_at_once(pool: Pool) -> None:
    to_zero(pool)
    pool.configure(wake_s=5.0)
    held = asyncio.create_task(pool.complete())
    await until(lambda: pool.router.waiting.requests == 1)

    url = f"http://127.0.0.1:{pool.router.internal_port}{ARRIVAL_PATH}"
    async with asyncio.timeout(PATIENCE_S), pool.client.get(url) as response:
        assert response.status == 200
    pool.show("d0")
    assert (await held)[0] == 200


async def test_best_effort_wakes_a_pool_although_no_replica_is_held_for_it(pool: Pool) -> None:
    to_zero(pool)
    loose = {"ttft_s": 60.0, "tpot_s": 60.0, "attainment": 0.5}
    pool.configure(wake_s=5.0, classes=[{"name": "default", "slo": loose, "guaranteed": False}])
    url = f"http://127.0.0.1:{pool.router.internal_port}{ARRIVAL_PATH}"
    listening = asyncio.create_task(pool.client.get(url))
    await until(lambda: pool.router.accounts._arrival is not None)
    held = asyncio.create_task(pool.complete())

    async with asyncio.timeout(PATIENCE_S):
        assert (await listening).status == 200
    report = await pool.arrivals()
    assert (report["arrivals"], report["in_system"]["queued_requests"]) == ([], 1)
    assert len(report["best_effort"]) == 1
    pool.show("d0")
    assert (await held)[0] == 200


async def test_a_class_waits_for_a_wake_for_as_long_as_it_may(pool: Pool) -> None:
    to_zero(pool)
    loose = {"ttft_s": 60.0, "tpot_s": 60.0, "attainment": 0.5}
    pool.configure(
        wake_s=0.1,
        timeouts={"first_token_s": 0.3, "request_s": 0.3},
        classes=[
            {"name": "default", "slo": {"ttft_s": 0.1, "tpot_s": 5.0}},
            {"name": "batch", "slo": loose, "guaranteed": False},
        ],
    )
    batch = {"X-Tandem-Class": "batch"}
    held = asyncio.create_task(pool.post({"model": "tiny", "prompt": "x"}, headers=batch))
    await until(lambda: pool.router.waiting.requests == 1)

    status, answer = await pool.complete()
    assert (status, answer["error"]["code"]) == (503, "pool_waking")

    await asyncio.sleep(0.5)
    pool.show("d0")
    assert (await held)[0] == 200


async def test_a_router_that_cannot_ring_is_asked_again(pool: Pool) -> None:
    rung = asyncio.Event()
    async with aiohttp.ClientSession() as session:
        bells: Doorbells[str] = Doorbells(session, ring=lambda _: rung.set(), again_s=0.05)
        # The port for clients answers such a path with 404, as an older router does.
        bells.listen("pool", [RouterTarget("r0", "127.0.0.1", port=pool.router.port)])
        await asyncio.sleep(0.2)
        assert not rung.is_set()
        bells.listen("pool", [RouterTarget("r0", "127.0.0.1", port=pool.router.internal_port)])
        async with asyncio.timeout(PATIENCE_S):
            while not rung.is_set():  # the router must first have the question
                await pool.complete()
        await bells.close()


async def test_a_router_that_ends_does_not_wait_for_a_long_poll(bare_pool: Pool) -> None:
    url = f"http://127.0.0.1:{bare_pool.router.internal_port}{ARRIVAL_PATH}"
    listening = asyncio.create_task(bare_pool.client.get(url))
    await until(lambda: bare_pool.router.accounts._arrival is not None)

    async with asyncio.timeout(PATIENCE_S):
        await bare_pool.router.close()

    listening.cancel()
