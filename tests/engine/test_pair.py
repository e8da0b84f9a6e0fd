"""One real prefill and one real decode engine on loopback, in the order of one pool's life.

The tests share the pair and run from the first to the last: each leaves what the next one needs.
"""

import asyncio
import json
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from benchmarks.engines.answers import answers, moved
from benchmarks.engines.engine import REQUEST_S, START_S, Pair, new_id, start
from benchmarks.engines.timing import Clock, prefill_times, step_times
from tandem_contracts.names import KEY_ENV
from tandem_engine.serve.engine_settings import EngineSettings, Role
from tests.engine.processes import alive, descendants
from tests.engine.real_engine import SMALL, body_of

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(START_S + 60),
]

KEY = "open-sesame"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(
    python: str, model: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Pair]:
    logs = tmp_path_factory.mktemp("engines")
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:
        prefill = await start(
            python,
            "--role=prefill",
            f"--model={model}",
            *SMALL,
            session=session,
            log=logs / "prefill.log",
            environment={KEY_ENV: KEY},
        )
        decode = await start(
            python,
            "--role=decode",
            f"--model={model}",
            f"--warm-up-peer={prefill.api.url}",
            # Both start at the same time, and a busy machine may put minutes between them.
            f"--warm-up-peer-timeout-s={START_S / 2}",
            *SMALL,
            session=session,
            log=logs / "decode.log",
            environment={KEY_ENV: KEY},
        )
        try:
            await asyncio.gather(prefill.ready(), decode.ready())
            yield Pair(prefill, decode)
        finally:
            for engine in (prefill, decode):
                await engine.end()


async def test_both_are_ready_and_decode_has_pulled_in_its_warm_up(pair: Pair) -> None:
    prefill, decode = await asyncio.gather(pair.prefill.info(), pair.decode.info())

    assert decode["warm_up"]["kv_pull"]["state"] == "done", decode["warm_up"]
    assert decode["warm_up"]["kv_pull"]["tokens"] == 256
    for info in (prefill, decode):
        assert info["kv_capacity_tokens"] == 32768
        assert info["max_model_len"] == 2048
        assert info["warm_up"]["full_batch"] == 16


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/completions"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/invocations"),
        ("POST", "/tokenize"),
        ("POST", "/detokenize"),
        ("POST", "/inference/v1/generate"),
        ("POST", "/pause"),
        ("POST", "/abort_requests"),
        ("GET", "/v1/models"),
        ("GET", "/openapi.json"),
        ("GET", "/load"),
    ],
)
async def test_a_request_without_the_key_is_refused(pair: Pair, method: str, path: str) -> None:
    async with aiohttp.ClientSession() as stranger:
        for engine in (pair.prefill, pair.decode):
            url = f"{engine.api.url}{path}"
            async with stranger.request(method, url, json={"prompt": "x"}) as answer:
                assert answer.status == 401


async def test_health_and_metrics_need_no_key(pair: Pair) -> None:
    async with aiohttp.ClientSession() as stranger:
        for path in ("/health", "/metrics", "/version"):
            async with stranger.get(f"{pair.decode.api.url}{path}") as answer:
                assert answer.status == 200


async def test_the_key_stands_in_no_command_line_and_in_no_log(pair: Pair) -> None:
    for engine in (pair.prefill, pair.decode):
        processes = descendants(engine.process.pid)
        words = _command_lines(processes)
        assert any(b"tandem_guard.Guard" in each for each in words)
        assert KEY.encode() not in b"".join(words)
        assert KEY not in engine.log.read_text()


async def test_each_has_measured_its_own_role(pair: Pair) -> None:
    prefill, decode = await asyncio.gather(pair.prefill.info(), pair.decode.info())

    short, long = prefill["measured"]["prefill"]
    assert (short["prompt_tokens"], long["prompt_tokens"]) == (32, 1024)
    # Which one is quicker is chance on a busy machine: a model as small as this has both in 0.05 s.
    assert 0 < short["seconds"] < 60
    assert 0 < long["seconds"] < 60
    assert [step["batch"] for step in decode["measured"]["decode_steps"]] == [1, 16]
    assert all(0 < step["seconds"] < 10 for step in decode["measured"]["decode_steps"])


async def test_each_tells_its_model_and_its_hardware(pair: Pair) -> None:
    prefill, decode = await asyncio.gather(pair.prefill.info(), pair.decode.info())

    for info in (prefill, decode):
        assert (info["device"], info["devices"]) == ("cpu", 1)
        # vLLM has made as many tokens of its 64 MiB.
        cache_bytes = info["shape"]["kv_bytes_per_token"] * info["kv_capacity_tokens"]
        assert cache_bytes == 64 * 1024 * 1024


async def test_an_idle_engine_leaves_its_core_to_others(pair: Pair) -> None:
    before = _cpu_s(pair.decode.process.pid)
    await asyncio.sleep(2.0)

    # Without the pause in NIXL's progress thread it is a whole core: 2 s and more.
    assert _cpu_s(pair.decode.process.pid) - before < 1.0


async def test_pulled_prompts_give_the_tokens_of_one_engine(pair: Pair) -> None:
    lengths = [5, 31, 32, 33, 200, 777, 1900]
    pulled = await pair.decode.prompt_tokens("external_kv_transfer")
    computed = await pair.decode.prompt_tokens("local_compute")

    through_both = await asyncio.gather(*(pair.tokens(body_of(length)) for length in lengths))

    alone = [await pair.prefill.tokens(body_of(length)) for length in lengths]
    assert list(through_both) == alone
    assert await pair.decode.prompt_tokens("external_kv_transfer") - pulled == sum(lengths)
    assert await pair.decode.prompt_tokens("local_compute") == computed


async def test_the_benchmark_of_engines_finds_the_same_and_times_both(pair: Pair) -> None:
    found = await answers(pair, model="tiny", longest=800)

    assert [each.pulled_tokens for each in found] == [each.prompt_tokens for each in found]
    assert all(each.same_tokens == each.of_tokens == 24 for each in found)
    assert (await moved(pair))["nixl_xfer_time_seconds_count"] >= 2 * len(found)

    prefill_clock, decode_clock = (
        Clock(one.api, EngineSettings(role=Role.PREFILL, model="tiny"), random.Random(1))
        for one in (pair.prefill, pair.decode)
    )
    steps = await step_times(decode_clock, longest=600, kv_capacity_tokens=32768, max_num_seqs=4)
    prefill = await prefill_times(prefill_clock, longest=200)

    assert [(step.batch, step.context_tokens) for step in steps] == [(b, 536) for b in (1, 2, 4)]
    assert [each.prompt_tokens for each in prefill] == [32, 128]
    assert all(each.seconds > 0 for each in prefill)


async def test_a_request_for_logprobs_does_not_need_a_compiler(pair: Pair) -> None:
    answer = await pair.decode.api.complete(
        body_of(40, logprobs=3), request_id=new_id(), timeout_s=REQUEST_S
    )

    assert len(answer["choices"][0]["logprobs"]["token_logprobs"]) == 24
    assert await pair.decode.probe("/ready") == 200


async def test_a_prefill_engine_killed_after_its_leg_costs_no_request(pair: Pair) -> None:
    body, request_id = body_of(333), new_id()
    alone = await pair.prefill.tokens(body)
    parameters = await pair.prefilled(body, request_id)
    for pid in descendants(pair.prefill.process.pid):
        os.kill(pid, signal.SIGKILL)
    await pair.prefill.process.wait()

    answer = await pair.decode.api.complete(
        body | {"kv_transfer_params": parameters}, request_id=request_id, timeout_s=REQUEST_S
    )

    assert answer["choices"][0]["token_ids"] == alone


async def test_sigterm_lets_a_running_stream_finish(pair: Pair) -> None:
    body = body_of(20, max_tokens=1500, stream=True, stream_options={"include_usage": True})
    async with pair.decode.api.session.post(
        f"{pair.decode.api.url}/v1/completions", json=body
    ) as stream:
        await stream.content.readline()
        processes = descendants(pair.decode.process.pid)
        pair.decode.process.send_signal(signal.SIGTERM)
        while await pair.decode.probe("/ready") == 200:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)
        assert await pair.decode.probe("/live") == 200
        text = (await stream.content.read()).decode()

    assert '"completion_tokens":1500' in text.replace(" ", "")
    assert text.rstrip().endswith("data: [DONE]")
    async with asyncio.timeout(REQUEST_S):
        assert await pair.decode.process.wait() == 0
    [drained] = [one for one in pair.decode.log.read_text().splitlines() if '"drained"' in one]
    assert json.loads(drained)["why"] == "idle"
    assert len(processes) > 1
    # Python's own tracker of shared memory ends when it notices that all others have.
    async with asyncio.timeout(REQUEST_S):
        while alive(processes):  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.05)


def _command_lines(pids: list[int]) -> list[bytes]:
    return [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]


def _cpu_s(pid: int) -> float:
    ticks = 0
    for one in descendants(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
