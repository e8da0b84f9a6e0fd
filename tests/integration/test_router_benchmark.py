"""Both ends of the router's benchmark are what they say: as many tokens, and failures counted."""

import http.client
import json
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.router import generator
from benchmarks.router.cores import Cores
from benchmarks.router.generator import Load
from benchmarks.router.targets import Target, upstream
from e2e.cluster.ports import free_port

pytestmark = pytest.mark.skipif(shutil.which("go") is None, reason="the ends are built from Go")

LOAD = Load(streams=3, tokens=7, gap_s=0.002, ramp_s=0.1, window_s=3.0)


@pytest.fixture(scope="module")
def program() -> Path:
    return generator.build()


@pytest.fixture
def engine(program: Path, tmp_path: Path) -> Iterator[Target]:
    with upstream(program, tmp_path, cores=Cores.here()) as target:
        yield target


def post(port: int, **fields: object) -> bytes:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions", data=json.dumps(fields).encode()
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


def test_the_upstream_streams_as_many_tokens_as_were_asked_for(engine: Target) -> None:
    options = {"continuous_usage_stats": True, "include_usage": True}

    text = post(engine.port, max_tokens=3, temperature=0, stream_options=options).decode()

    *events, report, done, rest = text.split("\n\n")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "length"]
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [1, 2, 3]
    assert json.loads(report.removeprefix("data: "))["usage"]["total_tokens"] == 67
    assert (done, rest) == ("data: [DONE]", "")


def test_a_stream_is_followed_at_once_by_the_next_on_its_connection(engine: Target) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=50)

    # With 60 s between two tokens, a pause after the last one would be noticed.
    for _ in range(2):
        connection.request("POST", "/v1/completions", '{"max_tokens": 1, "temperature": 60}')
        assert connection.getresponse().read().endswith(b"[DONE]\n\n")


def test_the_upstream_answers_a_prefill_with_kv_parameters(engine: Target) -> None:
    assert engine.prefill_port is not None

    answer = json.loads(post(engine.prefill_port, kv_transfer_params={"do_remote_decode": True}))

    assert answer["kv_transfer_params"]["do_remote_prefill"] is True


@pytest.mark.parametrize("load", [LOAD, generator.without_pace(LOAD, window_s=2.0)])
def test_the_generator_counts_whole_streams(program: Path, engine: Target, load: Load) -> None:
    result = generator.run(
        load,
        program=program,
        cores=Cores.here().load,
        pid=engine.pid,
        port=engine.port,
        prefill_port=engine.prefill_port,
    )

    assert result.failed == 0
    assert result.tokens > 0
    assert all(ttft_s > 0 for ttft_s in result.ttft_s)
    # Streams in progress at the window's edges count with some of their tokens only.
    whole = len(result.ttft_s) * load.tokens
    assert abs(result.tokens - whole) <= 2 * load.streams * load.tokens
    assert result.cpu_s > 0


def test_the_generator_counts_what_failed_and_says_why(program: Path, engine: Target) -> None:
    result = generator.run(
        LOAD,
        program=program,
        cores=Cores.here().load,
        pid=engine.pid,
        port=free_port(),
        prefill_port=None,
    )

    assert result.ttft_s == []
    assert result.failed > 0
    assert "connection refused" in result.first_failed
