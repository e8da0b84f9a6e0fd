"""One real prefill and one real decode engine on loopback, in the order of one pool's life.

The tests share the pair and run from the first to the last: each leaves what the next one needs.
"""

import asyncio
import os
import random
import signal
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tandem_engine.serve import metrics
from tandem_engine.serve.vllm_api import VllmApi
from tests.unit.serve.engine import free_ports

PACKAGES = Path(__file__).parents[2] / "engine"
START_S = 420.0
REQUEST_S = 120.0
PREFILL_ONLY = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(START_S + 60),
]


@dataclass
class RealEngine:
    process: asyncio.subprocess.Process
    api: VllmApi
    control: str
    log: Path

    async def probe(self, path: str) -> int | None:
        try:
            async with self.api.session.get(f"{self.control}{path}") as answer:
                return answer.status
        except aiohttp.ClientError:
            return None

    async def info(self) -> dict[str, Any]:
        async with self.api.session.get(f"{self.control}/info") as answer:
            body: dict[str, Any] = await answer.json()
            return body

    async def ready(self) -> None:
        async with asyncio.timeout(START_S):
            while await self.probe("/ready") != 200:
                assert self.process.returncode is None, self.log.read_text()[-3000:]
                await asyncio.sleep(0.25)

    async def tokens(self, body: dict[str, Any]) -> list[int]:
        answer = await self.api.complete(body, request_id=_id(), timeout_s=REQUEST_S)
        tokens: list[int] = answer["choices"][0]["token_ids"]
        return tokens

    async def prompt_tokens(self, source: str) -> float:
        samples = await self.api.samples()
        return metrics.total(samples, "vllm:prompt_tokens_by_source_total", source=source)


@dataclass
class Pair:
    prefill: RealEngine
    decode: RealEngine

    async def prefilled(self, body: dict[str, Any], request_id: str) -> dict[str, Any]:
        asked = body | {"max_tokens": 1, "kv_transfer_params": PREFILL_ONLY}
        answer = await self.prefill.api.complete(asked, request_id=request_id, timeout_s=REQUEST_S)
        parameters: dict[str, Any] = answer["kv_transfer_params"]
        return parameters

    async def tokens(self, body: dict[str, Any]) -> list[int]:
        request_id = _id()
        parameters = await self.prefilled(body, request_id)
        answer = await self.decode.api.complete(
            body | {"kv_transfer_params": parameters}, request_id=request_id, timeout_s=REQUEST_S
        )
        tokens: list[int] = answer["choices"][0]["token_ids"]
        return tokens


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(
    python: str, model: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Pair]:
    logs = tmp_path_factory.mktemp("engines")
    async with aiohttp.ClientSession() as session:
        prefill = await _start(python, model, session, logs / "prefill.log", "--role=prefill")
        decode = await _start(
            python,
            model,
            session,
            logs / "decode.log",
            "--role=decode",
            f"--warm-up-peer={prefill.api.url}",
            # Both start at the same time, and a busy machine may put minutes between them.
            f"--warm-up-peer-timeout-s={START_S / 2}",
        )
        try:
            await asyncio.gather(prefill.ready(), decode.ready())
            yield Pair(prefill, decode)
        finally:
            for engine in (prefill, decode):
                # The second signal ends an engine that still drains.
                for _ in range(2):
                    if engine.process.returncode is None:
                        engine.process.send_signal(signal.SIGTERM)
                await engine.process.wait()


async def _start(
    python: str, model: str, session: aiohttp.ClientSession, log: Path, *arguments: str
) -> RealEngine:
    port, control_port, side_channel_port = free_ports(3)
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            python,
            "-m",
            "tandem_engine.serve",
            "serve",
            *arguments,
            f"--model={model}",
            "--served-model-name=tiny",
            "--host=127.0.0.1",
            f"--port={port}",
            f"--control-port={control_port}",
            f"--side-channel-port={side_channel_port}",
            "--dtype=float32",
            "--block-size=32",
            "--max-model-len=2048",
            "--max-num-seqs=16",
            "--cpu-threads=1",
            "--kv-lease-s=12",
            "--drain-settle-s=0.5",
            env={**os.environ, "PYTHONPATH": str(PACKAGES), "HOME": str(log.parent)},
            stdout=output,
            stderr=output,
        )
    api = VllmApi(session, f"http://127.0.0.1:{port}")
    return RealEngine(process, api, f"http://127.0.0.1:{control_port}", log)


def body_of(length: int, **more: Any) -> dict[str, Any]:
    draw = random.Random(length)
    return {
        "model": "tiny",
        "prompt": [draw.randrange(300, 1000) for _ in range(length)],
        "max_tokens": 24,
        "temperature": 0,
        "return_token_ids": True,
        **more,
    }


def _id() -> str:
    return str(uuid.uuid4())


async def test_both_are_ready_and_decode_has_pulled_in_its_warm_up(pair: Pair) -> None:
    prefill, decode = await asyncio.gather(pair.prefill.info(), pair.decode.info())

    assert decode["warm_up"]["kv_pull"]["state"] == "done", decode["warm_up"]
    assert decode["warm_up"]["kv_pull"]["tokens"] == 256
    for info in (prefill, decode):
        assert info["kv_capacity_tokens"] == 32768
        assert info["max_model_len"] == 2048
        assert info["warm_up"]["full_batch"] == 16


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


async def test_a_request_for_logprobs_does_not_need_a_compiler(pair: Pair) -> None:
    answer = await pair.decode.api.complete(
        body_of(40, logprobs=3), request_id=_id(), timeout_s=REQUEST_S
    )

    assert len(answer["choices"][0]["logprobs"]["token_logprobs"]) == 24
    assert await pair.decode.probe("/ready") == 200


async def test_a_prefill_engine_killed_after_its_leg_costs_no_request(pair: Pair) -> None:
    body, request_id = body_of(333), _id()
    alone = await pair.prefill.tokens(body)
    parameters = await pair.prefilled(body, request_id)
    for pid in _descendants(pair.prefill.process.pid):
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
        pair.decode.process.send_signal(signal.SIGTERM)
        while await pair.decode.probe("/ready") == 200:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)
        assert await pair.decode.probe("/live") == 200
        text = (await stream.content.read()).decode()

    assert '"completion_tokens":1500' in text.replace(" ", "")
    assert text.rstrip().endswith("data: [DONE]")
    async with asyncio.timeout(REQUEST_S):
        assert await pair.decode.process.wait() == 0
    assert "drained why='idle'" in pair.decode.log.read_text()
    assert not _descendants(pair.decode.process.pid)


def _descendants(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(status.parent.name)] = int(fields[1])
    found = {pid} & parents.keys()
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def _cpu_s(pid: int) -> float:
    ticks = 0
    for one in _descendants(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
