from typing import Any

import pytest

from tandem_engine.serve.engine_facts import Checkpoint
from tandem_engine.serve.refusals import refusal
from tests.unit.serve.given import AMX, AVX2, AVX512, facts, settings

FOUR_BIT = Checkpoint(quantization="compressed-tensors", weight_bits=4)
EIGHT_BIT = Checkpoint(quantization="compressed-tensors", weight_bits=8)


@pytest.mark.parametrize(
    ("given", "surroundings", "words"),
    [
        ({"kv_cache_dtype": "fp8"}, {"cpu_flags": AVX2}, ("--kv-cache-dtype", "AVX-512", "auto")),
        ({"kv_cache_dtype": "fp8_e4m3"}, {}, ("--kv-cache-dtype", "transfer", "auto")),
        ({"kv_cache_dtype": "int8_per_token_head"}, {}, ("--kv-cache-dtype", "INT8", "auto")),
        ({"quantization": "fp8"}, {}, ("--quantization", "AMX", "bfloat16")),
        ({}, {"checkpoint": Checkpoint(quantization="fp8")}, ("--quantization", "AMX")),
        ({}, {"checkpoint": FOUR_BIT, "cpu_flags": AVX2}, ("--model", "4-bit", "8-bit")),
        ({"extra_arg": ("--enable-sleep-mode",)}, {}, ("--extra-arg", "sleep", "leave")),
        ({"extra_arg": ("--kv_offloading_size=4",)}, {}, ("--kv-offloading-size", "no GPU")),
        ({"tensor_parallel_size": 2}, {}, ("--tensor-parallel-size", "write 1")),
        ({"eager": False}, {}, ("--no-eager", "compiler")),
        (
            {"max_model_len": 9000},
            {"checkpoint": Checkpoint(max_positions=4096)},
            ("--max-model-len", "9000", "--max-model-len=4096"),
        ),
        ({}, {"model_problem": "--model: /x does not exist"}, ("--model", "/x")),
        (
            {"required_cache": "/cache"},
            {"cache_dir": "/tmp/.cache/tandem-engine"},
            ("--required-cache", "chown 65532:65532"),
        ),
        (
            {"device": "cuda", "dtype": "float32", "quantization": "awq"},
            {},
            ("--dtype", "awq", "auto"),
        ),
    ],
)
def test_pairs_that_are_known_to_fail_are_refused_in_one_sentence(
    given: dict[str, Any], surroundings: dict[str, Any], words: tuple[str, ...]
) -> None:
    reason = refusal(settings(**given), facts(**surroundings))

    assert reason is not None
    assert "\n" not in reason
    for word in words:
        assert word in reason


@pytest.mark.parametrize(
    ("given", "surroundings"),
    [
        ({}, {}),
        ({"required_cache": "/cache"}, {"cache_dir": "/cache/.cache/tandem-engine"}),
        ({"quantization": "fp8"}, {"cpu_flags": AMX}),
        ({}, {"checkpoint": FOUR_BIT, "cpu_flags": AVX512}),
        ({}, {"checkpoint": EIGHT_BIT, "cpu_flags": AVX2}),
        ({"max_model_len": 4096}, {"checkpoint": Checkpoint(max_positions=4096)}),
        ({"max_model_len": 4096}, {"checkpoint": Checkpoint(max_positions=None)}),
        (
            {"max_model_len": 9000, "extra_arg": ('--hf-overrides={"rope_parameters": {}}',)},
            {"checkpoint": Checkpoint(max_positions=4096)},
        ),
        (
            {"max_model_len": 9000},
            {
                "checkpoint": Checkpoint(max_positions=4096),
                "environment": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"},
            },
        ),
        ({"device": "cuda", "kv_cache_dtype": "fp8", "tensor_parallel_size": 8}, {}),
        ({"device": "cuda", "extra_arg": ("--enable-sleep-mode",), "eager": False}, {}),
        ({"extra_arg": ("--max-num-batched-tokens=4096", "--max-logprobs", "5")}, {}),
        ({"extra_arg": ("--seed=-1", "-1")}, {}),
    ],
)
def test_pairs_that_work_are_not_refused(
    given: dict[str, Any], surroundings: dict[str, Any]
) -> None:
    assert refusal(settings(**given), facts(**surroundings)) is None


@pytest.mark.parametrize(
    "argument",
    [
        "--port",
        "--port=80",
        "--kv-transfer-config={}",
        "--kv_transfer_config",
        "--kv-transfer-config.kv_role=kv_both",
        "--kv-transfer",
        "--served-model-name=x",
        "--served_model",
        "-tp=2",
        "-tp2",
        "-q=awq",
        "--config=/x.yaml",
        "--api-key=x",
        "--enable-log-requests",
        "--disable-log-stats",
    ],
)
def test_arguments_that_are_tandems_own_are_refused_however_they_are_written(argument: str) -> None:
    reason = refusal(settings(extra_arg=(argument,)), facts())

    assert reason is not None
    assert reason.startswith("--extra-arg: ")
