"""The router's record of single requests: times, counts, and which of them begin alike."""

import asyncio
import base64
import json
import time
from itertools import takewhile
from typing import Any

import pytest

from tandem_engine.router.accounting.recent import COLUMNS, Recent, RecentRequest
from tandem_engine.router.openai.call import parse_call
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.prefixes import CHUNK_BYTES, MARK_BYTES, MOST_CHUNKS, PrefixMarks
from tandem_engine.router.settings_in_force import parse_settings
from tests.unit.router.pool import Pool, settings_document

SECRET = "the patient is called Ada Lovelace and lives at 12 St James's Square. "
SETTINGS = parse_settings(json.dumps(settings_document(max_model_len=1_000_000)))


def rows(page: dict[str, Any], which: str = "rows") -> list[dict[str, Any]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in page[which]]


async def test_each_request_is_told_with_its_lengths_and_what_was_cached(pool: Pool) -> None:
    pool.engines["p0"].script.cached_tokens = 100
    before_s = time.time()
    await pool.stream([5] * 600)
    await pool.idle()

    page = await pool.requests()

    assert (page["schema"], page["router"], page["next"]) == (1, "tiny-router-0", None)
    assert page["complete_since_s"] <= before_s <= page["now_s"]
    [row] = rows(page)
    assert before_s - 0.01 <= row.pop("arrived_s") <= page["now_s"]
    assert len(base64.b64decode(row.pop("marks"))) == MARK_BYTES * (600 * 4 // CHUNK_BYTES)
    assert row == {"prompt_tokens": 600, "cached_tokens": 100, "output_tokens": 4, "whole": True}


async def test_requests_still_inside_are_told_as_far_as_they_got(pool: Pool) -> None:
    gate = pool.engines["d0"].script.hold = asyncio.Event()
    running = asyncio.create_task(pool.stream([5] * 600))
    await pool.engines["d0"].wait_seen(1)

    page = await pool.requests()

    assert page["rows"] == []
    [row] = rows(page, "inside")
    assert (row["prompt_tokens"], row["output_tokens"], row["whole"]) == (600, 0, False)
    gate.set()
    await running
    await pool.idle()
    page = await pool.requests()
    assert (len(page["rows"]), page["inside"]) == (1, [])


async def test_a_failed_request_is_an_arrival_whose_answer_is_not_whole(pool: Pool) -> None:
    pool.engines["d0"].script.statuses = [500, 500]
    await pool.complete()
    await pool.idle()

    assert [row["whole"] for row in rows(await pool.requests())] == [False]


async def test_a_request_that_was_refused_is_no_arrival(pool: Pool) -> None:
    pool.engines["p0"].script.statuses = [400]
    pool.engines["d0"].script.statuses = [400]
    status, _ = await pool.complete()
    await pool.idle()

    assert status == 400
    assert (await pool.requests())["rows"] == []


async def test_a_request_shed_before_its_body_was_looked_into_is_an_arrival(pool: Pool) -> None:
    pool.configure(limits={"concurrent_requests": 1})
    gate = pool.engines["p0"].script.hold = asyncio.Event()
    running = asyncio.create_task(pool.complete())
    await pool.engines["p0"].wait_seen(1)
    status, _ = await pool.complete("word " * 100)

    assert status == 429
    [row] = rows(await pool.requests())
    assert row["prompt_tokens"] > 50
    assert (row["cached_tokens"], row["output_tokens"], row["whole"]) == (None, 0, False)
    gate.set()
    await running


async def test_no_word_of_a_prompt_nor_a_name_is_told(pool: Pool) -> None:
    chat = {
        "model": "tiny",
        "user": "ada@example.org",
        "messages": [{"role": "user", "content": SECRET * 40}],
    }
    headers = {"X-Request-Id": "ada-1", "Authorization": "Bearer of-ada"}
    await pool.post(chat, "/v1/chat/completions", headers=headers)
    await pool.idle()

    told = json.dumps(await pool.requests())

    [row] = rows(json.loads(told))
    assert row["marks"]
    for word in ("Ada", "ada", "Square", "user", "Bearer"):
        assert word not in told.replace(row["marks"], "")


async def test_requests_are_told_with_the_names_that_the_pool_gives_tenants(pool: Pool) -> None:
    pool.configure(tenants={"header": "X-Tenant-Id", "named": [{"name": "acme"}]})
    gate = pool.engines["d0"].script.hold = asyncio.Event()
    tasks = []
    for number, name in enumerate(("acme", "somebody"), start=1):
        send = pool.post({"model": "tiny", "prompt": [5] * 10}, headers={"X-Tenant-Id": name})
        tasks.append(asyncio.create_task(send))
        await pool.engines["d0"].wait_seen(number)

    inside = await pool.requests()
    gate.set()
    await asyncio.gather(*tasks)
    await pool.idle()
    ended = await pool.requests()

    assert sorted(inside["inside_tenants"]) == sorted(ended["row_tenants"]) == ["acme", "other"]
    assert (inside["row_tenants"], ended["inside_tenants"]) == ([], [])
    assert "somebody" not in json.dumps([inside, ended])


async def test_a_pool_without_tenants_tells_none_of_its_requests(pool: Pool) -> None:
    await pool.complete()
    await pool.idle()

    assert "row_tenants" not in await pool.requests()


@pytest.mark.parametrize("after", ["-1", "x", "", "1.5"])
async def test_a_page_that_is_no_number_is_refused(pool: Pool, after: str) -> None:
    assert (await pool.requests(after))["status"] == 400


def seen(number: int, marks: bytes = b"") -> RecentRequest:
    return RecentRequest(arrived_s=1000.0 + number, prompt_tokens=number, marks=marks)


class Wall:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def read(recent: Recent, *, most_rows: int) -> list[int]:
    found, after = [], 0
    while after is not None:
        page = recent.page(after, most_rows=most_rows, inside=list)
        found += [row["prompt_tokens"] for row in rows(page)]
        after = page["next"]
    return found


def test_pages_hold_every_request_once() -> None:
    recent = Recent(router="r", wall=Wall())
    for number in range(25):
        recent.ended(seen(number))

    assert read(recent, most_rows=10) == list(range(25))


def test_a_page_after_its_rows_were_forgotten_goes_on_with_the_oldest_left() -> None:
    recent = Recent(router="r", wall=Wall(), most_requests=10)
    for number in range(10):
        recent.ended(seen(number))
    after = recent.page(0, most_rows=3, inside=list)["next"]
    for number in range(10, 15):
        recent.ended(seen(number))

    page = recent.page(after, most_rows=3, inside=list)

    assert [row["prompt_tokens"] for row in rows(page)] == [5, 6, 7]


def test_what_is_older_than_twenty_minutes_goes_and_the_report_says_since_when_it_is_complete() -> (
    None
):
    wall = Wall()
    recent = Recent(router="r", wall=wall)
    for second in range(0, 2000, 100):
        wall.now_s = 1000.0 + second
        recent.ended(seen(second))

    page = recent.page(0, inside=list)

    assert [row["prompt_tokens"] for row in rows(page)] == list(range(800, 2000, 100))
    assert page["complete_since_s"] == 1700.0


@pytest.mark.parametrize("bound", [{"most_requests": 50}, {"most_bytes": 50 * (30 + 41 + 80)}])
def test_what_has_no_room_goes_oldest_first(bound: dict[str, int]) -> None:
    wall = Wall()
    recent = Recent(router="r", wall=wall, **bound)
    for number in range(500):
        wall.now_s += 1.0
        recent.ended(seen(number, marks=bytes(80)))

    page = recent.page(0, inside=list)

    kept = [row["prompt_tokens"] for row in rows(page)]
    assert kept == list(range(500 - len(kept), 500))
    assert 30 <= len(kept) <= 50
    assert page["complete_since_s"] == wall.now_s - len(kept)


def marks(prompt: Any, *, key: str | None = "k", salt: str | None = None, **fields: Any) -> list:
    kind = EndpointKind.COMPLETIONS if "messages" not in fields else EndpointKind.CHAT
    body = {"model": "tiny", **({"prompt": prompt} if prompt is not None else {}), **fields}
    raw = json.dumps(body).encode()
    call = parse_call(kind, raw, SETTINGS, salt=salt, prefixes=PrefixMarks(key))
    return [call.marks[at : at + MARK_BYTES] for at in range(0, len(call.marks), MARK_BYTES)]


def alike(a: list, b: list) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))))


def chat(*texts: str) -> list[dict[str, str]]:
    roles = ("system", "user", "assistant", "user")
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


def test_prompts_share_as_many_marks_as_they_share_text() -> None:
    a = marks("a" * 5000)
    b = marks("a" * 3500 + "b" * 1500)

    assert (len(a), len(b), alike(a, b)) == (4, 4, 3)
    assert not set(a[3:]) & set(b)


def test_a_session_that_sends_again_what_was_said_shares_all_but_the_last_chunk() -> None:
    first = marks(None, messages=chat("rules " * 300, "question " * 200))
    second = marks(None, messages=chat("rules " * 300, "question " * 200, "answer", "next"))

    assert len(first) >= 3
    assert alike(first, second) == len(first)


def test_token_ids_share_as_text_does() -> None:
    a, b = marks([7] * 1000), marks([7] * 600 + [8] * 400)

    assert (len(a), alike(a, b)) == (3, 2)


def test_other_fields_and_their_order_change_no_mark() -> None:
    assert marks("a" * 3000, temperature=0.5, max_tokens=7) == marks("a" * 3000, seed=3)


@pytest.mark.parametrize(
    "other",
    [
        {"salt": "tenant"},
        {"cache_salt": "mine"},
        {"add_special_tokens": False},
        {"key": "another"},
        {"key": None},
    ],
)
def test_what_shares_no_cache_shares_no_mark(other: dict[str, Any]) -> None:
    assert not set(marks("a" * 3000)) & set(marks("a" * 3000, **other))


def test_a_router_without_a_key_of_the_pool_has_one_of_its_own() -> None:
    assert not set(marks("a" * 3000, key=None)) & set(marks("a" * 3000, key=None))


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": ["a" * 3000, "b"]},
        {"prompt": [2**40] * 3000},
        {"prompt": "a" * 3000, "truncate_prompt_tokens": 5},
        {"prompt": [7] * 1000, "truncate_prompt_tokens": 5},
        {"prompt": [[7] * 1000], "truncate_prompt_tokens": -1},
        {"prompt": "short"},
    ],
)
def test_what_bytes_cannot_tell_has_no_marks(body: dict[str, Any]) -> None:
    assert marks(**body) == []


def test_an_image_has_no_marks() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:" + "A" * 5000}}
    assert marks(None, messages=[{"role": "user", "content": [image]}]) == []


def test_marks_are_bounded() -> None:
    assert len(marks("a" * (MOST_CHUNKS + 50) * CHUNK_BYTES)) == MOST_CHUNKS
