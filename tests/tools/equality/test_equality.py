from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from benchmarks.equality import LONGEST_TOKENS, SHORTEST_TOKENS, answers, differences, prompts

SAME = {"tokens": [1, 2, 3], "finish": "length"}


def test_prompts_span_the_lengths_and_share_no_beginning() -> None:
    drawn = prompts(200, seed=3)

    lengths = [len(prompt) for prompt in drawn]
    assert (min(lengths), max(lengths)) == (SHORTEST_TOKENS, LONGEST_TOKENS)
    assert len({tuple(prompt[:2]) for prompt in drawn}) == 200
    assert drawn == prompts(200, seed=3)
    assert drawn != prompts(200, seed=4)


def test_equal_answers_are_no_difference() -> None:
    assert differences([[7], [8]], [SAME, SAME], [SAME, SAME]) == []


def test_the_first_differing_token_is_named() -> None:
    (found,) = differences([[7], [8, 8]], [SAME, SAME], [SAME, SAME | {"tokens": [1, 9, 3]}])

    assert (found.prompt, found.prompt_tokens, found.first_at) == (1, 2, 1)


def test_an_answer_cut_short_differs() -> None:
    assert differences([[7]], [SAME | {"tokens": [1, 2]}], [SAME])


def test_two_equal_errors_are_a_difference() -> None:
    error = {"error": "HTTP 500: x"}

    assert len(differences([[7]], [error], [error])) == 1


@pytest.fixture
async def failing() -> AsyncIterator[str]:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=503, text="busy")

    app = web.Application()
    app.add_routes([web.post("/v1/completions", refuse)])
    async with TestServer(app, host="127.0.0.1") as server:
        yield str(server.make_url("")).rstrip("/")


async def test_a_failed_request_is_an_error_in_its_place(failing: str) -> None:
    async with aiohttp.ClientSession() as session:
        found = await answers(session, failing, "tiny", [[1], [2]], output_tokens=1, at_a_time=2)

    assert found == [{"error": "HTTP 503: busy"}] * 2
