"""Routers of one pool tell each other which prefill pod computed which prompt."""

import asyncio
import base64
import json
from collections import Counter
from functools import partial
from typing import Any
from unittest.mock import create_autospec

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.streams import StreamReader
from aiohttp.test_utils import make_mocked_request

from tandem_engine.router.openai.prefixes import MARK_BYTES, MOST_CHUNKS
from tandem_engine.router.peers.computed import (
    COMPUTED_PATH,
    MOST_MESSAGE_BYTES,
    Computed,
    News,
    document_of,
    parse_computed,
)
from tandem_engine.router.peers.hearing import Hearing
from tandem_engine.router.peers.killers import Killers
from tandem_engine.router.peers.notice import NoticeError
from tandem_engine.router.peers.telling import authorization
from tandem_routing.prefix_index import Prefix
from tests.unit.router.pool import Pool, decode_pace, until
from tests.unit.router.two_routers import KEY, status_of

PROMPT = "rules of the house. " * 300


def marks(pool: Pool) -> int:
    return pool.router.waiting.caches.marks


async def test_a_prompt_that_one_router_sent_is_found_by_the_other(
    pair: tuple[Pool, Pool],
) -> None:
    one, other = pair

    await one.stream(PROMPT)
    await until(lambda: marks(other) == marks(one) == 5)

    caches, fleet = other.router.waiting.caches, other.router.fleet
    held = {pod.name for pod in fleet.pods() if caches.loss(pod, 1e9)}
    assert held == {"p0"} == {name for name in ("p0", "p1") if one.engines[name].seen}


@pytest.mark.parametrize("pair", [("a", "b"), (KEY, None), (None, None)], indirect=True)
async def test_only_routers_of_the_pool_are_told_and_heard(pair: tuple[Pool, Pool]) -> None:
    one, other = pair
    await one.stream(PROMPT)

    await one.router.peers.tell_once(COMPUTED_PATH, document_of([]))

    assert (marks(one), marks(other)) == (5, 0)


async def test_a_router_that_hears_all_remembers_all_that_a_pod_holds(
    pair: tuple[Pool, Pool],
) -> None:
    pace = decode_pace(kv_capacity_tokens=6000, routers=3, step_s=[0.0, 0.0, 0.0])
    one, _ = pair
    one.configure(decode=pace)

    await one.stream(PROMPT)

    assert one.router.waiting.caches.capacity_tokens == 6000


def told_by(news: News) -> list[Computed]:
    message = news.take()
    assert message is not None
    return parse_computed(message)


def row(**changes: Any) -> dict[str, Any]:
    stretches = base64.b64encode(bytes(range(2 * MARK_BYTES))).decode()
    return {"pod": "p0", "tokens": 256.0, "marks": stretches, **changes}


def document(*rows: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps({"schema": 1, "computed": list(rows), **changes}).encode()


def test_a_document_is_read_as_it_was_written() -> None:
    [first, second] = parse_computed(document(row(), row(pod="p1", tokens=1.5)))

    assert (first.pod, second.pod, second.prefix.tokens) == ("p0", "p1", 1.5)
    assert len(first.prefix.marks) == 2
    assert document_of([first, second]) == document(row(), row(pod="p1", tokens=1.5))
    longest = Prefix(range(2**63, 2**63 + MOST_CHUNKS), 256.0)
    news = News()
    news.add("p0", longest)
    [again] = told_by(news)
    assert list(again.prefix.marks) == list(longest.marks)


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        (b"{", "the document"),
        (document(schema=2), "schema"),
        (document(more=1), "more"),
        (document(row(pod="a/b")), "pod"),
        (document(row(tokens=0)), "tokens"),
        (document(row(tokens=1e9)), "tokens"),
        (document(row(marks="!")), "marks"),
        (document(row(marks="")), "marks"),
        (document(row(marks=base64.b64encode(bytes(9)).decode())), "marks"),
        (document(row(marks=base64.b64encode(bytes(8 * 513)).decode())), "marks"),
        (document(row(prompt="hello")), "prompt"),
        (document(*[row()] * 5000), "computed"),
    ],
)
def test_what_is_no_such_document_is_refused_whole(raw: bytes, where: str) -> None:
    with pytest.raises(NoticeError, match=where):
        parse_computed(raw)


async def test_what_a_router_is_told_is_checked(pair: tuple[Pool, Pool]) -> None:
    _, other = pair
    status = partial(status_of, other, COMPUTED_PATH)

    assert await status(document(row()), key=None) == 401
    assert await status(b"", method="GET") == 405
    assert await status(document(row(marks="!"))) == 400
    assert await status(bytes(MOST_MESSAGE_BYTES + 1)) == 413
    assert marks(other) == 0
    # A decode pod, and an unknown one.
    assert await status(document(row(pod="d0"), row(pod="gone"))) == 204
    assert marks(other) == 0
    assert await status(document(row())) == 204
    assert marks(other) == 2


async def test_so_many_messages_are_heard_a_second(pair: tuple[Pool, Pool]) -> None:
    _, other = pair
    url = f"http://127.0.0.1:{other.router.internal_port}{COMPUTED_PATH}"
    known = {"Authorization": authorization(KEY)}

    seen = set()
    for _ in range(400):
        async with other.client.post(url, data=document(row()), headers=known) as response:
            seen.add(response.status)
        if 429 in seen:
            break

    assert seen == {204, 429}


def test_what_there_is_to_tell_is_bounded_and_the_newest_is_kept() -> None:
    news = News()
    long = Prefix(range(512), 256.0)

    for number in range(1000):
        news.add(f"p{number}", long)

    message = news.take()
    assert message is not None
    assert len(message) <= MOST_MESSAGE_BYTES
    told = parse_computed(message)
    assert 10 < len(told) < 1000
    assert told[-1].pod == "p999"
    assert news.take() is None


@pytest.mark.parametrize(
    ("pod", "stretches", "tokens"),
    [
        ("p0", 1, 1e9),
        ("p0", 1, 0.0004),
        ("p0", 1, 0.0),
        ("p0", MOST_CHUNKS + 1, 256.0),
        ("p0", 0, 256.0),
        ("p_0", 1, 256.0),
    ],
)
def test_what_others_would_refuse_is_not_told_and_costs_no_other_prompt(
    pod: str, stretches: int, tokens: float
) -> None:
    news = News()
    news.add("p1", Prefix((1, 2), 65_536.0))
    news.add(pod, Prefix(range(stretches), tokens))
    news.add("p2", Prefix((1, 2), 0.001))

    assert [each.pod for each in told_by(news)] == ["p1", "p2"]


async def test_a_message_of_many_prompts_is_taken_bit_by_bit() -> None:
    many = [Computed(f"p{number}", Prefix(range(MOST_CHUNKS), 256.0)) for number in range(80)]
    turn, taken = 0, Counter[int]()

    def take(prompts: list[Computed]) -> None:
        taken[turn] += sum(len(each.prefix.marks) for each in prompts)

    hearing = Hearing(
        killers=Killers(lambda: 0.0, pool_key=KEY),
        computed=take,
        spent=lambda _: None,
        pool_key=KEY,
        clock=lambda: 0.0,
    )
    body = StreamReader(create_autospec(BaseProtocol, instance=True), limit=2**20)
    body.feed_data(document_of(many))
    body.feed_eof()
    told = asyncio.create_task(
        hearing.take_computed(
            make_mocked_request(
                "POST", COMPUTED_PATH, headers={"Authorization": authorization(KEY)}, payload=body
            )
        )
    )
    while not told.done():
        await asyncio.sleep(0)
        turn += 1

    assert told.result().status == 204
    assert taken.total() == 80 * MOST_CHUNKS
    assert max(taken.values()) <= 2 * MOST_CHUNKS
