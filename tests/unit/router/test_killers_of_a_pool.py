"""Routers of one pool tell each other which requests end engines: two at most end in all."""

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tandem_engine.router.peers.killers import Killers
from tandem_engine.router.peers.notice import MOST_IN_A_NOTICE, REFUSED_S, Answer, End, Notice
from tandem_engine.router.peers.telling import Peer, authorization
from tests.unit.router.fake_engine import Script
from tests.unit.router.pool import Pool, until
from tests.unit.router.test_engine_killers import POISON, Clock, call, dead
from tests.unit.router.two_routers import KEY, peer, router_before

DIGEST = bytes(range(16))


class Twins:
    """Two routers of one pool, before the same engines."""

    def __init__(self, *pools: Pool) -> None:
        self.pools = pools
        self._next = itertools.cycle(pools)

    @property
    def engines(self) -> Pool:
        return self.pools[0]

    async def fleet(self, *, prefill: int = 3, decode: int = 5, **scripts: Script) -> None:
        names = [f"p{number}" for number in range(prefill)]
        for name in (*names, *(f"d{number}" for number in range(decode))):
            engine = await self.pools[0].add(name)
            engine.script = scripts.get(name[0], Script())
            other = self.pools[1]
            other.engines[name], other.revisions[name] = engine, "a"
            other.show(name)

    async def ask(self, prompt: str = POISON, **fields: Any) -> int:
        """Send a request as a balancer does: to each router in turn."""
        body = {"model": "tiny", "prompt": prompt, **fields}
        url = next(self._next).url + "/v1/completions"
        async with self.pools[0].client.post(url, json=body) as response:
            await response.read()
            return response.status

    async def stream(self) -> AsyncIterator[bytes]:
        """Return the lines of a stream from the first router, as they come."""
        body = {"model": "tiny", "prompt": POISON, "stream": True}
        url = self.pools[0].url + "/v1/completions"
        async with self.pools[0].client.post(url, json=body) as response:
            async for line in response.content:
                yield line


@pytest.fixture
async def twins(request: pytest.FixtureRequest) -> AsyncIterator[Twins]:
    """Its parameter are the keys of both."""
    keys = getattr(request, "param", (KEY, KEY))
    one, other = [await router_before(f"r{number}", key) for number, key in enumerate(keys)]
    one.router.peers.replace([peer(one, "r0"), peer(other, "r1")])
    other.router.peers.replace([peer(one, "r0"), peer(other, "r1")])
    yield Twins(one, other)
    for pool in (one, other):
        await pool.client.close()
        await pool.router.close()
    for engine in one.engines.values():
        await engine.stop()


@pytest.mark.parametrize(
    ("scripts", "fields"),
    [
        ({"d": Script(dies_of=POISON)}, {}),
        ({"p": Script(dies_of=POISON)}, {}),
        ({"d": Script(dies_of=POISON, dies_after=2)}, {}),
        ({"d": Script(dies_of=POISON, dies_after=2)}, {"stream": True}),
    ],
    ids=["decode", "prefill", "in mid answer", "in mid stream"],
)
async def test_a_client_that_asks_every_router_again_ends_two_engines_in_all(
    twins: Twins, scripts: dict[str, Script], fields: dict[str, Any]
) -> None:
    await twins.fleet(**scripts)

    statuses = [await twins.ask(**fields) for _ in range(8)]

    assert dead(twins.engines) == 2
    assert statuses[-5:] == [422] * 5
    for pool in twins.pools:
        for name, engine in pool.engines.items():
            pool.show(name, ready=not engine.dead)
    assert [await twins.ask("harmless") for _ in range(2)] == [200, 200]


async def test_copies_at_both_routers_at_once_are_not_sent_on_to_a_third_engine(
    twins: Twins,
) -> None:
    await twins.fleet(prefill=0, d=Script(dies_of=POISON))
    hold = asyncio.Event()
    for pool, own in zip(twins.pools, ("d0", "d1"), strict=True):
        for name in pool.engines:
            pool.show(name, ready=name == own)
        pool.engines[own].script = Script(dies_of=POISON, hold=hold)

    answers = [asyncio.create_task(twins.ask()) for _ in twins.pools]
    for name in ("d0", "d1"):
        await twins.engines.engines[name].wait_seen(1)
    for pool in twins.pools:
        for name in pool.engines:
            pool.show(name)
    hold.set()
    statuses = await asyncio.gather(*answers)

    assert statuses == [502, 502]
    assert dead(twins.engines) == 2
    assert [await twins.ask() for _ in range(4)] == [422] * 4


async def test_other_routers_know_before_a_client_hears_that_its_stream_broke(
    twins: Twins,
) -> None:
    await twins.fleet(prefill=0, d=Script(dies_of=POISON, dies_after=2))

    async for line in twins.stream():
        if b"error" in line:
            break

    assert [end.pod for end in held(twins.pools[1]).ends] == ["d0"]


async def test_one_engine_that_ended_at_two_routers_is_one_end(twins: Twins) -> None:
    await twins.fleet(prefill=0, decode=1)
    engine = twins.engines.engines["d0"]
    engine.script = Script(dies_of=POISON, hold=asyncio.Event())
    answers = [asyncio.create_task(twins.ask()) for _ in twins.pools]
    await engine.wait_seen(2)
    assert engine.script.hold is not None
    engine.script.hold.set()
    await asyncio.gather(*answers)
    for name in ("p0", "d1"):
        fresh = await twins.pools[0].add(name)
        other = twins.pools[1]
        other.engines[name], other.revisions[name] = fresh, "a"
        other.show(name)

    assert [await twins.ask() for _ in range(2)] == [200, 200]


async def test_a_body_that_one_router_answered_is_not_refused_by_the_other(twins: Twins) -> None:
    await twins.fleet(prefill=0, decode=3)
    twins.engines.engines["d0"].script = Script(dies_of=POISON)
    for _ in range(8):
        await twins.ask()
        if dead(twins.engines):
            break
    assert dead(twins.engines) == 1

    await until(lambda: not any(held(pool).ends for pool in twins.pools))
    twins.engines.engines["d1"].script = Script(dies_of=POISON)
    for _ in range(6):
        await twins.ask()
    assert await twins.ask() == 200


@pytest.mark.parametrize("twins", [(None, None), (KEY, "another")], indirect=True)
async def test_routers_without_a_common_key_keep_to_themselves(twins: Twins) -> None:
    await twins.fleet(d=Script(dies_of=POISON))

    statuses = [await twins.ask() for _ in range(12)]

    assert dead(twins.engines) == 4
    assert statuses[-4:] == [422] * 4


async def test_a_router_that_starts_asks_what_there_was_before_it(twins: Twins) -> None:
    await twins.fleet(d=Script(dies_of=POISON))
    while await twins.ask() != 422:
        pass
    late = await router_before("r2", KEY)
    for name, engine in twins.engines.engines.items():
        late.engines[name], late.revisions[name] = engine, "a"
        late.show(name)

    gone = Peer("r9", "127.0.0.1", 1)
    late.router.peers.replace([gone, peer(twins.pools[1], "r1")])
    await until(lambda: held(late).ends)

    status, _ = await late.complete(POISON)
    assert status == 422
    await late.client.close()
    await late.router.close()


async def test_a_router_that_does_not_answer_holds_a_request_up_for_a_moment_only(
    twins: Twins,
) -> None:
    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)
        writer.close()

    await twins.fleet(prefill=0, d=Script(dies_of=POISON))
    deaf = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = deaf.sockets[0].getsockname()[1]
    twins.pools[0].router.peers.replace([Peer("deaf", "127.0.0.1", port)])

    async with asyncio.timeout(30):
        assert await twins.ask() == 502

    assert dead(twins.engines) == 2
    deaf.close()


def notice(**changes: Any) -> dict[str, Any]:
    end = {"digest": DIGEST.hex(), "pod": "d0", "age_s": 1.0}
    return {"schema": 1, "ends": [end], "answers": [], **changes}


END = notice()["ends"][0]
WRONG = {
    "no JSON": b"{",
    "no object": b"[]",
    "deep": b'{"ends": ' + b"[" * 10_000,
    "another schema": json.dumps(notice(schema=2)).encode(),
    "an unknown field": json.dumps(notice(more=1)).encode(),
    "an unknown field of an end": json.dumps(notice(ends=[{**END, "body": "x"}])).encode(),
    "no digest": json.dumps(notice(ends=[{**END, "digest": "x"}])).encode(),
    "a number as a text": json.dumps(notice(ends=[{**END, "age_s": "1"}])).encode(),
    "of the future": json.dumps(notice(ends=[{**END, "age_s": -1}])).encode(),
    "too old": json.dumps(notice(ends=[{**END, "age_s": REFUSED_S + 1}])).encode(),
    "no moment": b'{"schema": 1, "ends": [{"digest": "%s", "pod": "d0", "age_s": NaN}]}'
    % DIGEST.hex().encode(),
    "no pod's name": json.dumps(notice(ends=[{**END, "pod": "x\ny"}])).encode(),
    "too many": json.dumps(notice(ends=[END] * (MOST_IN_A_NOTICE + 1))).encode(),
    "too large": json.dumps(notice()).encode() + b" " * 300_000,
}


async def tell(
    pool: Pool, raw: bytes, *, method: str = "POST", given: str | None = authorization(KEY)
) -> int:
    headers = {} if given is None else {"Authorization": given}
    url = f"http://127.0.0.1:{pool.router.internal_port}/killers"
    async with pool.client.request(method, url, data=raw, headers=headers) as response:
        await response.read()
        return response.status


def held(pool: Pool) -> Notice:
    return pool.router.killers.known()


@pytest.mark.parametrize("raw", WRONG.values(), ids=WRONG)
async def test_what_is_no_notice_is_refused_and_changes_nothing(twins: Twins, raw: bytes) -> None:
    assert await tell(twins.pools[0], raw) in (400, 413)
    assert held(twins.pools[0]) == Notice()


@pytest.mark.parametrize("given", [None, "", KEY, f"Bearer {KEY}", authorization("other"), "\xe4"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_sender_without_the_pools_key_is_refused_and_learns_nothing(
    twins: Twins, method: str, given: str | None
) -> None:
    raw = json.dumps(notice()).encode()

    assert await tell(twins.pools[0], raw, method=method, given=given) == 401
    assert held(twins.pools[0]) == Notice()


@pytest.mark.parametrize("twins", [(None, None)], indirect=True)
async def test_a_router_without_a_key_refuses_every_message(twins: Twins) -> None:
    for given in (None, "", "Bearer ", authorization("")):
        assert await tell(twins.pools[0], json.dumps(notice()).encode(), given=given) == 404
    assert held(twins.pools[0]) == Notice()


async def test_messages_without_end_are_not_taken(twins: Twins) -> None:
    raw = json.dumps(notice()).encode()

    statuses = [await tell(twins.pools[0], raw) for _ in range(200)]

    assert statuses[0] == 200
    assert 429 in statuses


async def test_no_message_and_no_log_shows_a_body_or_the_key(
    twins: Twins, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await twins.fleet(d=Script(dies_of=POISON))
    while await twins.ask() != 422:
        pass

    told = held(twins.pools[1]).document().decode()

    assert "digest" in told
    assert POISON not in told
    records = "\n".join(str(record.__dict__) for record in caplog.records)
    for secret in (
        POISON,
        KEY,
        authorization(KEY),
        *(end.digest.hex() for end in held(twins.pools[1]).ends),
    ):
        assert secret not in records


def test_a_digest_is_the_same_for_one_key_and_for_no_other() -> None:
    digests = [
        Killers(Clock(), pool_key=key).ended(call("x"), credentials=None, pod="d0")
        for key in (KEY, KEY, "other", None, None)
    ]

    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


def test_what_peers_tell_adds_up_by_engine_and_is_as_old_as_it_was() -> None:
    clock = Clock()
    killers = Killers(clock, pool_key=KEY)
    digest = killers.ended(call("x"), credentials=None, pod="d0")

    killers.hear(Notice(ends=(End(digest, "d0", 0.4), End(digest, "d0", 4.9))))
    assert not killers.has_ended_two(digest)
    killers.hear(Notice(ends=(End(digest, "d1", 100.0),)))
    assert killers.has_ended_two(digest)
    clock.now += REFUSED_S - 1.0
    assert killers.has_ended_two(digest)
    clock.now += 2.0
    assert not killers.has_ended_two(digest)


def test_an_answer_clears_what_was_before_it_and_nothing_after_it() -> None:
    killers = Killers(Clock(), pool_key=KEY)
    killers.hear(Notice(ends=(End(DIGEST, "d0", 20.0), End(DIGEST, "d1", 5.0))))

    killers.hear(Notice(answers=(Answer(DIGEST, 10.0),)))

    assert [end.pod for end in killers.known().ends] == ["d1"]


def test_what_peers_tell_takes_no_more_room_than_there_is() -> None:
    killers = Killers(Clock(), pool_key=KEY)
    for first in range(0, 5000, 500):
        numbers = range(first, first + 500)
        killers.hear(Notice(ends=tuple(End(n.to_bytes(16), f"d{n}", 1.0) for n in numbers)))

    assert len(killers._suspects) == 4096
    assert len(killers.known().ends) == MOST_IN_A_NOTICE
