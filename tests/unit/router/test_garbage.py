"""Requests leave little to the garbage collector, whose long passes would delay tokens."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.router.pool import Pool

STREAM = {"model": "tiny", "prompt": "x", "stream": True}


@pytest.fixture
def unreachable() -> Iterator[list[object]]:
    """Objects that the collector finds, none of them freed; it runs when the test says so."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield gc.garbage
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def of_the_router(unreachable: list[object]) -> list[object]:
    gc.collect()
    return [each for each in unreachable if type(each).__module__.startswith("tandem_engine.")]


async def test_a_request_is_freed_without_the_collector(
    pool: Pool, unreachable: list[object]
) -> None:
    await pool.stream()
    await pool.complete()

    assert of_the_router(unreachable) == []


@pytest.mark.parametrize(
    "fault",
    [
        {"statuses": [500]},
        {"statuses": [500, 500, 500, 500]},
        {"cut_after": 2},
        {"garbage_after": 2},
        {"error_event_after": 2},
        {"drop": True},
    ],
    ids=lambda fault: next(iter(fault)),
)
@pytest.mark.parametrize("engine", ["p0", "d0"])
async def test_so_is_a_request_whose_engine_fails(
    pool: Pool, unreachable: list[object], engine: str, fault: dict[str, Any]
) -> None:
    for name, value in fault.items():
        setattr(pool.engines[engine].script, name, value)

    url = pool.url + "/v1/completions"
    await pool.complete()
    async with pool.client.post(url, json=STREAM) as answer:
        await answer.read()

    assert of_the_router(unreachable) == []


async def test_so_is_one_whose_client_leaves(pool: Pool, unreachable: list[object]) -> None:
    url = pool.url + "/v1/completions"
    pool.engines["d0"].script.gap_s = 0.2
    async with pool.client.post(url, json=STREAM) as answer:
        await answer.content.readany()
        answer.close()

    await pool.idle()

    assert of_the_router(unreachable) == []


async def test_so_is_one_whose_engine_falls_silent(pool: Pool, unreachable: list[object]) -> None:
    pool.configure(timeouts={"idle_s": 0.2, "first_token_s": 0.5})
    url = pool.url + "/v1/completions"
    for script in ({"freeze": True}, {"freeze": False, "freeze_after": 2}):
        for name, value in script.items():
            setattr(pool.engines["d0"].script, name, value)

        await pool.complete()
        async with pool.client.post(url, json=STREAM) as answer:
            await answer.read()

    assert of_the_router(unreachable) == []


async def test_so_is_one_that_is_refused(pool: Pool, unreachable: list[object]) -> None:
    await pool.complete(temperature="warm")
    await pool.post(b"{")
    pool.configure(limits={"concurrent_requests": 1})
    pool.engines["d0"].script.gap_s = 0.1
    await asyncio.gather(*(pool.complete() for _ in range(3)))

    assert of_the_router(unreachable) == []
