"""Every argument list that the launcher can make is one that vLLM's own parser takes and means."""

import json
import subprocess
from collections.abc import Callable, Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tandem_engine.serve.engine_command import vllm_command
from tandem_engine.serve.engine_facts import EngineFacts
from tandem_engine.serve.engine_settings import Device, Dtype, EngineSettings, Role

Parse = Callable[[EngineSettings], dict[str, Any]]

OPTIONS: dict[str, tuple[Any, ...]] = {
    "dtype": tuple(Dtype),
    "quantization": ("fp8", "awq", "compressed-tensors"),
    "kv_cache_dtype": ("auto", "fp8"),
    "block_size": (16, 32, 128),
    "prefix_caching": (True, False),
    "tensor_parallel_size": (1, 8),
    "max_num_seqs": (1, 256),
    "max_model_len": (2048, 131072),
    "kv_cache_memory_bytes": (67108864, 70 * 2**30),
    "eager": (True, False),
    "kv_lease_s": (6, 600),
    "stop_timeout_s": (1, 60),
    "served_model_name": ("tiny", "a name with spaces", "org/name:1"),
    "extra_arg": (("--max-num-batched-tokens=4096",), ("--seed", "7")),
}

# Where vLLM uses another word for what the launcher calls by the name on the left.
RENAMED = {
    "prefix_caching": "enable_prefix_caching",
    "eager": "enforce_eager",
    "stop_timeout_s": "shutdown_timeout",
}


@pytest.fixture(scope="module")
def parse(python: str) -> Iterator[Parse]:
    with subprocess.Popen(
        [python, str(Path(__file__).parent / "parser.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def parse_one(settings: EngineSettings) -> dict[str, Any]:
            argv = vllm_command(settings, facts()).argv
            entry_point = {Device.CPU: 3, Device.CUDA: 4}[settings.device]
            process.stdin.write(json.dumps(argv[entry_point:]) + "\n")
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(process.stdout.readline())
            return answer

        yield parse_one
        process.stdin.close()


def facts() -> EngineFacts:
    return EngineFacts("python", frozenset(), 1.0, "10.0.0.1", "/cache", {}, model_is_local=True)


def engine(role: Role, device: Device, chosen: dict[str, Any]) -> EngineSettings:
    base = {"role": role, "device": device, "model": "/models/tiny", "port": 8123}
    return EngineSettings.model_validate(base | {"served_model_name": "tiny"} | chosen)


def check(settings: EngineSettings, parsed: dict[str, Any], chosen: dict[str, Any]) -> None:
    assert "error" not in parsed, (settings, parsed)
    assert parsed["model"] == settings.model
    assert parsed["port"] == settings.port
    assert parsed["served_model_name"] == [settings.name]
    assert parsed["kv_role"] == {"prefill": "kv_producer", "decode": "kv_consumer"}[settings.role]
    assert parsed["kv_connector"] == "NixlConnector"
    assert parsed["kv_buffer_device"] == settings.device
    assert parsed["kv_load_failure_policy"] == "recompute"
    for name, value in chosen.items():
        seen = parsed.get(RENAMED.get(name, name))
        if name not in ("kv_lease_s", "extra_arg", "served_model_name"):
            assert seen == value, (name, parsed)


@pytest.mark.parametrize("device", Device)
@pytest.mark.parametrize("role", Role)
def test_vllm_takes_every_pair_of_options(parse: Parse, role: Role, device: Device) -> None:
    for one, other in combinations(OPTIONS, 2):
        for values in product(OPTIONS[one], OPTIONS[other]):
            chosen = dict(zip((one, other), values, strict=True))
            settings = engine(role, device, chosen)

            check(settings, parse(settings), chosen)


random_options = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(values) for name, values in OPTIONS.items()}
)


@hypothesis_settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(role=st.sampled_from(Role), device=st.sampled_from(Device), chosen=random_options)
def test_vllm_takes_any_combination_of_options(
    parse: Parse, role: Role, device: Device, chosen: dict[str, Any]
) -> None:
    settings = engine(role, device, chosen)

    check(settings, parse(settings), chosen)


def test_a_list_that_vllm_refuses_is_seen_as_refused(parse: Parse) -> None:
    parsed = parse(engine(Role.DECODE, Device.CPU, {"extra_arg": ("--no-such-option",)}))

    assert "--no-such-option" in parsed["error"]
