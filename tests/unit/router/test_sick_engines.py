"""One engine of several is sick: few requests meet it, until it is mended."""

import asyncio
from dataclasses import replace

import pytest

from tandem_engine.router.pods.health import Why
from tandem_engine.router.pods.pod import Pod as EnginePod
from tests.unit.router.fake_engine import Script
from tests.unit.router.pool import Pool
from tests.unit.router.sick import Load

HEALTHY = Script(prefill_s=0.01, first_token_s=0.01, gap_s=0.01)
ALWAYS = 100_000
ENOUGH = 0.05
FAILURES, SILENCES = 3, 8

SICK_DECODE = {
    "cuts each stream after its first token": Script(cut_after=1),
    "drops each connection": Script(drop=True),
    "answers 500": Script(statuses=[500] * ALWAYS),
    "accepts and never answers": Script(hold=asyncio.Event()),
    "is frozen": Script(freeze=True),
    "is slow to the first token": Script(first_token_s=1.5),
    "tells an error in its stream": Script(error_event_after=1),
    "ends each answer without a token": Script(tokens=0),
}
SICK_PREFILL = {
    "drops each connection": Script(drop=True),
    "answers 500": Script(statuses=[500] * ALWAYS),
    "accepts and never answers": Script(hold=asyncio.Event()),
    "is slow": Script(prefill_s=1.5),
    "gives no KV blocks": Script(kv=False),
}


async def fleet(pool: Pool, *, prefill: int, decode: int) -> None:
    # A machine that is held up for half a second is no engine that cannot be reached.
    pool.configure(slo={"ttft_s": 30.0, "tpot_s": 5.0}, timeouts={"connect_s": 5.0})
    names = [f"p{number}" for number in range(prefill)] + [f"d{n}" for n in range(decode)]
    for name in names:
        (await pool.add(name)).script = replace(HEALTHY)


def fall_ill(pool: Pool, name: str, script: Script) -> None:
    times = {"prefill_s": 0.01, "first_token_s": 0.01, "gap_s": 0.01}
    told = {key: getattr(script, key) or value for key, value in times.items()}
    pool.engines[name].script = replace(script, statuses=list(script.statuses), **told)


async def least_share(pool: Pool, load: Load, name: str) -> float:
    """Send 200 requests; return the share of the last 100 that went to `name`.

    On a machine that is held up, answers come late and trials come often: the least share of a few
    hundred more counts then. Nothing but an ejection brings it below a third.
    """
    fleet = [engine for key, engine in pool.engines.items() if key[0] == name[0]]
    await load.send(100)
    share = 1.0
    for _ in range(5):
        before = {engine.name: len(engine.seen) for engine in fleet}
        await load.send(100)
        new = {engine.name: len(engine.seen) - before[engine.name] for engine in fleet}
        share = min(share, new[name] / sum(new.values()))
        if share <= ENOUGH:
            break
    return share


def put_out(pool: Pool) -> list[tuple[str, Why, int]]:
    """Note each pod that is put out from now on, why, and how many requests it had then."""
    found: list[tuple[str, Why, int]] = []
    ejection = pool.router.fleet.ejection
    tell = ejection.ejected

    def ejected(pod: EnginePod, why: Why) -> None:
        found.append((pod.name, why, pod.requests))
        tell(pod, why)

    ejection.ejected = ejected
    return found


async def told_sick(pool: Pool) -> set[tuple[str, str]]:
    return {(sick["pod"], sick["reason"]) for sick in (await pool.arrivals())["sick"]}


@pytest.mark.parametrize("illness", SICK_DECODE)
async def test_a_sick_decode_engine_fails_few_requests(bare_pool: Pool, illness: str) -> None:
    await fleet(bare_pool, prefill=1, decode=3)
    await Load(bare_pool, 50.0).send(30)
    fall_ill(bare_pool, "d0", SICK_DECODE[illness])
    load, out = Load(bare_pool, 50.0), put_out(bare_pool)

    share = await least_share(bare_pool, load, "d0")

    # The third failure puts the pod out; what it has by then may fail, too. How much that is
    # depends on how busy the machine is.
    held = [requests for name, why, requests in out if (name, why) == ("d0", Why.FAILURES)]
    most = FAILURES + sum(held) if held else SILENCES
    assert load.failed <= most, load.failures
    assert share <= ENOUGH


@pytest.mark.parametrize("illness", SICK_PREFILL)
async def test_a_sick_prefill_engine_fails_no_request(bare_pool: Pool, illness: str) -> None:
    await fleet(bare_pool, prefill=3, decode=2)
    await Load(bare_pool, 50.0).send(30)
    fall_ill(bare_pool, "p0", SICK_PREFILL[illness])
    load = Load(bare_pool, 50.0)

    share = await least_share(bare_pool, load, "p0")

    assert load.failures == []
    assert share <= ENOUGH


async def test_a_prefill_engine_whose_kv_cannot_be_pulled_is_the_one_to_blame(
    bare_pool: Pool,
) -> None:
    await fleet(bare_pool, prefill=3, decode=3)
    for name in ("d0", "d1", "d2"):
        bare_pool.engines[name].script.unpullable = frozenset({"p0"})
    load = Load(bare_pool, 50.0)

    share = await least_share(bare_pool, load, "p0")

    assert load.failures == []
    assert share <= ENOUGH
    assert await told_sick(bare_pool) == {("p0", "kv")}


async def test_a_decode_engine_that_can_pull_no_kv_blocks_at_all_is_blamed(
    bare_pool: Pool,
) -> None:
    await fleet(bare_pool, prefill=3, decode=3)
    bare_pool.engines["d0"].script.unpullable = frozenset({"p0", "p1", "p2"})
    load = Load(bare_pool, 50.0)

    share = await least_share(bare_pool, load, "d0")

    assert load.failures == []
    assert share <= ENOUGH
    assert await told_sick(bare_pool) == {("d0", "failures")}


async def test_no_client_finds_out_whether_an_engine_completes_something_again(
    bare_pool: Pool,
) -> None:
    await fleet(bare_pool, prefill=1, decode=3)
    await Load(bare_pool, 50.0).send(30)
    # It says that it is healthy, and breaks off each answer.
    fall_ill(bare_pool, "d0", Script(cut_after=1))
    load, sick = Load(bare_pool, 50.0), bare_pool.engines["d0"]
    await load.send(60)
    assert await told_sick(bare_pool) == {("d0", "failures")}
    before, failed, probes = len(sick.seen), load.failed, sick.probes

    await load.send(150)

    assert sick.probes > probes
    assert (len(sick.seen), load.failed) == (before, failed)


async def test_a_mended_engine_serves_its_share_again(bare_pool: Pool) -> None:
    await fleet(bare_pool, prefill=3, decode=3)
    fall_ill(bare_pool, "d0", Script(cut_after=1))
    fall_ill(bare_pool, "p0", Script(statuses=[500] * ALWAYS))
    load = Load(bare_pool, 50.0)
    await load.send(150)
    assert await told_sick(bare_pool) == {("d0", "failures"), ("p0", "failures")}
    assert bare_pool.metric("tandem_router_pods", role="decode", state="ejected") == 1

    bare_pool.engines["d0"].script = replace(HEALTHY)
    bare_pool.engines["p0"].script = replace(HEALTHY)
    for name in ("d0", "p0"):
        await load.send_until_served(name, share=0.2, within_s=100.0)

    assert not await told_sick(bare_pool)


async def test_what_two_silent_pods_did_not_begin_is_refused_and_may_come_again(
    bare_pool: Pool,
) -> None:
    await fleet(bare_pool, prefill=1, decode=0)
    (await bare_pool.add("d2")).script = replace(HEALTHY, tokens=ALWAYS)
    busy = [asyncio.create_task(bare_pool.stream()) for _ in range(6)]
    await bare_pool.engines["d2"].wait_seen(6)
    for name in ("d0", "d1"):
        (await bare_pool.add(name)).script = Script(hold=asyncio.Event())

    status, answer, headers = await bare_pool.post({"model": "tiny", "prompt": [5] * 50})

    assert (status, answer["error"]["code"]) == (503, "engine_silent")
    assert "Retry-After" in headers
    assert {len(bare_pool.engines[name].seen) for name in ("d0", "d1")} == {1}
    for task in busy:
        task.cancel()
    await asyncio.gather(*busy, return_exceptions=True)
