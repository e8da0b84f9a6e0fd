"""Every call of the conformance script, through a real pool beside plain vLLM of the same model."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from benchmarks.conformance.__main__ import HEADING, PAGE, compared, idle, unwritten
from benchmarks.conformance.calls import CALLS
from benchmarks.conformance.compare import rows_of
from benchmarks.conformance.servers import Servers, servers
from benchmarks.engines.engine import START_S

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(2 * START_S),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(
    python: str, model: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Servers]:
    async with servers(python, model, tmp_path_factory.mktemp("servers")) as both:
        yield both


async def test_no_answer_differs_in_a_way_that_is_not_written_down(both: Servers) -> None:
    written = rows_of(PAGE.read_text(), heading=HEADING)

    found, _ = await compared(both, CALLS)

    assert [str(each) for each in unwritten(found, written)] == []
    assert idle(found, written) == []


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "{}", "max_tokens": 4}),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "{}"}], "max_tokens": 4},
        ),
        ("/v1/responses", {"input": "{}", "max_output_tokens": 4}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "{}"}], "max_tokens": 4}),
    ],
)
async def test_the_prompt_is_computed_by_prefill_and_pulled_by_decode(
    both: Servers, path: str, body: dict[str, object], stream: bool
) -> None:
    pair = both.pair
    assert pair is not None
    # Nothing of it is in a cache.
    said = f"{path} {stream} " + "a word or two " * 20
    asked = {
        "model": "tiny",
        "stream": stream,
        "temperature": 0,
        **{
            name: said
            if value == "{}"
            else [{"role": "user", "content": said}]
            if name == "messages"
            else value
            for name, value in body.items()
        },
    }
    pulled = await pair.decode.prompt_tokens("external_kv_transfer")
    computed = await pair.decode.prompt_tokens("local_compute")

    async with (
        aiohttp.ClientSession() as session,
        session.post(both.pool_url + path, json=asked) as answer,
    ):
        assert answer.status == 200, await answer.text()
        await answer.read()

    assert await pair.decode.prompt_tokens("external_kv_transfer") - pulled > 60
    # The last token may be computed once more, for its successor.
    assert await pair.decode.prompt_tokens("local_compute") - computed <= 1
