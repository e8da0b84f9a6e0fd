"""A request that ends engines ends two at most, and is refused for a while after that."""

import asyncio
import json
import logging
import re
from dataclasses import replace

import pytest

from tandem_engine.router.openai.call import Call, parse_call
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.peers.killers import REFUSED_S, Killers
from tandem_engine.router.settings_in_force import parse_settings
from tests.unit.router.fake_engine import Script
from tests.unit.router.pool import Pool, settings_document, until

POISON = "poison"


async def fleet(pool: Pool, **scripts: Script) -> None:
    for name in ("p0", "p1", "p2", "d0", "d1", "d2", "d3"):
        (await pool.add(name)).script = replace(scripts.get(name[0], Script()))


def dead(pool: Pool) -> int:
    return sum(engine.dead for engine in pool.engines.values())


@pytest.mark.parametrize(
    "scripts",
    [
        {"d": Script(dies_of=POISON)},
        {"p": Script(dies_of=POISON)},
        {"p": Script(dies_of=POISON), "d": Script(dies_of=POISON)},
        {"d": Script(dies_of=POISON, dies_after=2)},
    ],
    ids=["decode", "prefill", "both", "in mid stream"],
)
async def test_two_engines_at_most_end_with_one_request(
    bare_pool: Pool, scripts: dict[str, Script]
) -> None:
    await fleet(bare_pool, **scripts)

    first, _ = await bare_pool.complete(POISON)
    while dead(bare_pool) < 2:
        await bare_pool.complete(POISON)
    for _ in range(5):
        again, answer = await bare_pool.complete(POISON)

    assert first == 502
    assert dead(bare_pool) == 2
    assert again == 422
    assert answer["error"]["code"] == "engine_killer"
    assert (await bare_pool.complete("a harmless one"))[0] == 200
    assert bare_pool.metric("tandem_router_engine_killers_total") == 5


async def test_copies_that_wait_while_others_end_two_engines_go_to_no_third(
    bare_pool: Pool,
) -> None:
    bare_pool.configure(limits={"prefill_requests_per_pod": 1})
    await fleet(bare_pool, d=Script(dies_of=POISON))
    for name in ("p1", "p2"):
        bare_pool.show(name, ready=False)
    engine = bare_pool.engines["p0"]
    gates = [asyncio.Event() for _ in range(3)]
    engine.script.hold = gates[0]
    first = asyncio.create_task(bare_pool.complete("a harmless one"))
    await engine.wait_seen(1)

    copies = [asyncio.create_task(bare_pool.complete(POISON)) for _ in range(3)]
    await until(lambda: bare_pool.router.waiting.requests == 3)
    engine.script.hold = gates[1]
    gates[0].set()
    await engine.wait_seen(2)
    engine.script.hold = gates[2]
    gates[1].set()
    await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    gates[2].set()

    assert (await first)[0] == 200
    assert sorted([status for status, _ in await asyncio.gather(*copies)]) == [422, 422, 502]
    assert dead(bare_pool) == 2
    assert len(engine.seen) == 3


async def test_a_prefill_and_a_decode_engine_are_two(bare_pool: Pool) -> None:
    await fleet(bare_pool, d=Script(dies_of=POISON))
    bare_pool.engines["p0"].script.dies_of = POISON

    status, _ = await bare_pool.complete(POISON)

    assert status == 502
    assert dead(bare_pool) == 2
    assert bare_pool.engines["p0"].dead


async def test_a_broken_connection_to_an_engine_that_lives_is_no_end(bare_pool: Pool) -> None:
    await fleet(bare_pool, p=Script(drop=True))

    status, _ = await bare_pool.complete(POISON)

    assert status == 200
    assert (await bare_pool.complete(POISON))[0] == 200


async def test_an_engine_that_was_leaving_ended_by_itself(bare_pool: Pool) -> None:
    await bare_pool.add("p0")
    leaving = await bare_pool.add("d0")
    hold = leaving.script.hold = asyncio.Event()
    leaving.script.dies_of = POISON
    answer = asyncio.create_task(bare_pool.complete(POISON))
    await leaving.wait_seen(1)
    bare_pool.show("d0", leaving=True)
    for name in ("d1", "d2"):
        await bare_pool.add(name)
    bare_pool.engines["d1"].script.dies_of = POISON
    hold.set()

    assert (await answer)[0] == 502
    assert leaving.dead
    assert bare_pool.engines["d1"].dead
    assert (await bare_pool.complete(POISON))[0] == 200


async def test_other_credentials_are_another_request(bare_pool: Pool) -> None:
    await fleet(bare_pool, d=Script(dies_of=POISON))
    await bare_pool.complete(POISON)
    for engine in bare_pool.engines.values():
        engine.script = Script()
    body = {"model": "tiny", "prompt": POISON}

    mine, _, _ = await bare_pool.post(body)
    theirs, _, _ = await bare_pool.post(body, headers={"Authorization": "Bearer other"})

    assert (mine, theirs) == (422, 200)


async def test_no_log_shows_a_digest(bare_pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await fleet(bare_pool, d=Script(dies_of=POISON))

    body = {"model": "tiny", "prompt": POISON}
    await bare_pool.post(body, headers={"X-Request-Id": "mine"})

    told = "\n".join(str(record.__dict__) for record in caplog.records)
    assert "engine ended during a request" in told
    assert POISON not in told
    assert not re.search(r"[0-9a-f]{32}|\\x[0-9a-f]{2}", told)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def call(prompt: str) -> Call:
    body = json.dumps({"model": "tiny", "prompt": prompt}).encode()
    return parse_call(
        EndpointKind.COMPLETIONS, body, parse_settings(json.dumps(settings_document()))
    )


def test_many_copies_at_one_engine_that_ends_are_one_end() -> None:
    clock = Clock()
    killers = Killers(clock)

    for _ in range(10):
        digest = killers.ended(call("x"), credentials=None, pod="d0")

    assert not killers.has_ended_two(digest)
    killers.check(call("x"), credentials=None)


def test_the_same_engine_ended_twice_counts_twice() -> None:
    clock = Clock()
    killers = Killers(clock)
    killers.ended(call("x"), credentials=None, pod="d0")
    clock.now += 60.0

    assert killers.has_ended_two(killers.ended(call("x"), credentials=None, pod="d0"))

    with pytest.raises(ApiError):
        killers.check(call("x"), credentials=None)


def test_a_refusal_ends() -> None:
    clock = Clock()
    killers = Killers(clock)
    for pod in ("d0", "d1"):
        killers.ended(call("x"), credentials=None, pod=pod)

    clock.now += REFUSED_S + 1.0

    killers.check(call("x"), credentials=None)


def test_what_was_answered_is_no_killer() -> None:
    killers = Killers(Clock())
    killers.ended(call("x"), credentials=None, pod="d0")
    killers.answered(call("x"), credentials=None)

    assert not killers.has_ended_two(killers.ended(call("x"), credentials=None, pod="d1"))
