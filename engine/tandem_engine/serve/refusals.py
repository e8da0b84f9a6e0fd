"""Settings that are known to fail, refused before half an hour of loading: one sentence each. Pure.

Each failure was seen with vLLM 0.32.0, or follows from its source. Some would occur only at the
first request, after vLLM reported that it is healthy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tandem_engine.serve.engine_facts import EngineFacts
from tandem_engine.serve.engine_settings import Device, Dtype, EngineSettings

# Option of vLLM -> ours. An abbreviation of one, or a dotted part, counts as the option.
OWNED = {
    "--model": "--model",
    "--revision": "--model-revision",
    "--served-model-name": "--served-model-name",
    "--host": "--host",
    "--port": "--port",
    "--dtype": "--dtype",
    "--quantization": "--quantization",
    "-q": "--quantization",
    "--kv-cache-dtype": "--kv-cache-dtype",
    "--block-size": "--block-size",
    "--enable-prefix-caching": "--prefix-caching",
    "--no-enable-prefix-caching": "--no-prefix-caching",
    "--tensor-parallel-size": "--tensor-parallel-size",
    "-tp": "--tensor-parallel-size",
    "--max-num-seqs": "--max-num-seqs",
    "--max-model-len": "--max-model-len",
    "--kv-cache-memory-bytes": "--kv-cache-memory-bytes",
    "--shutdown-timeout": "--stop-timeout-s",
    "--enforce-eager": "--eager",
    "--no-enforce-eager": "--no-eager",
}
FORBIDDEN = {
    "--kv-transfer-config": "Tandem sets the KV transfer between roles",
    "--api-key": "clients send requests to the router only",
    "--ssl-keyfile": "engines speak plain HTTP inside the cluster",
    "--ssl-certfile": "engines speak plain HTTP inside the cluster",
    "--uds": "the router reaches engines by TCP",
    "--root-path": "the router uses no path prefix",
    "--headless": "each engine serves its own API",
    "--config": "a file could set what Tandem owns",
    "--disable-log-stats": "drain and scaling read these metrics",
    "--enable-log-requests": "logs must not contain prompts",
    "--no-disable-uvicorn-access-log": "the metrics count requests at less cost",
}
_FOUR_BIT = frozenset({"awq", "gptq", "awq_marlin", "gptq_marlin", "compressed-tensors"})


@dataclass(frozen=True, slots=True)
class _Rule:
    applies: Callable[[EngineSettings, EngineFacts], bool]
    sentence: Callable[[EngineSettings, EngineFacts], str]


def _on_cpu(settings: EngineSettings, facts: EngineFacts) -> bool:
    return settings.device is Device.CPU


def _has(settings: EngineSettings, *options: str) -> str | None:
    names = [_option(argument) for argument in settings.extra_arg]
    return next((name for name in names if name in options), None)


def _quantization(settings: EngineSettings, facts: EngineFacts) -> str | None:
    if settings.quantization is not None:
        return settings.quantization
    return facts.checkpoint.quantization if facts.checkpoint else None


def _bits(facts: EngineFacts) -> int | None:
    return facts.checkpoint.weight_bits if facts.checkpoint else None


def _positions(settings: EngineSettings, facts: EngineFacts) -> int | None:
    """Return the checkpoint's own limit, unless vLLM is told to use another."""
    if _has(settings, "--hf-overrides") or facts.environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN"):
        return None
    return facts.checkpoint.max_positions if facts.checkpoint else None


_OFFLOAD = ("--kv-offloading-size", "--kv-offloading-backend", "--cpu-offload-gb", "--swap-space")

_RULES = (
    _Rule(
        lambda settings, facts: (
            settings.required_cache is not None
            and not facts.cache_dir.startswith(settings.required_cache)
        ),
        lambda settings, facts: (
            "--required-cache: the engine cannot write to this folder of its node; give the folder "
            "to the engine's user there, for example with `chown 65532:65532`"
        ),
    ),
    _Rule(
        lambda settings, facts: facts.model_problem is not None,
        lambda settings, facts: str(facts.model_problem),
    ),
    _Rule(
        lambda settings, facts: (
            settings.max_model_len is not None
            and (_positions(settings, facts) or settings.max_model_len) < settings.max_model_len
        ),
        lambda settings, facts: (
            f"--max-model-len: the model supports {_positions(settings, facts)} tokens, not "
            f"{settings.max_model_len}; write --max-model-len={_positions(settings, facts)} or less"
        ),
    ),
    _Rule(
        lambda settings, facts: (
            _on_cpu(settings, facts)
            and settings.kv_cache_dtype.startswith("fp8")
            and not (facts.has_avx512 or facts.has_amx)
        ),
        lambda settings, facts: (
            "--kv-cache-dtype: an FP8 KV cache on CPU needs AVX-512 or AMX, which this processor "
            "lacks; write --kv-cache-dtype=auto"
        ),
    ),
    _Rule(
        lambda settings, facts: (
            _on_cpu(settings, facts) and settings.kv_cache_dtype.startswith("fp8")
        ),
        lambda settings, facts: (
            "--kv-cache-dtype: vLLM cannot transfer an FP8 KV cache between CPU engines; "
            "write --kv-cache-dtype=auto"
        ),
    ),
    _Rule(
        lambda settings, facts: (
            _on_cpu(settings, facts) and settings.kv_cache_dtype.startswith("int8")
        ),
        lambda settings, facts: (
            "--kv-cache-dtype: vLLM has no INT8 KV cache on CPU; write --kv-cache-dtype=auto"
        ),
    ),
    _Rule(
        lambda settings, facts: (
            _on_cpu(settings, facts)
            and _quantization(settings, facts) == "fp8"
            and not facts.has_amx
        ),
        lambda settings, facts: (
            "--quantization: FP8 weights on CPU need AMX, which this processor lacks; "
            "serve the model without quantization and with --dtype=bfloat16"
        ),
    ),
    _Rule(
        lambda settings, facts: (
            _on_cpu(settings, facts)
            and _quantization(settings, facts) in _FOUR_BIT
            and _bits(facts) == 4
            and not facts.has_avx512
        ),
        lambda settings, facts: (
            "--model: 4-bit weights on CPU need AVX-512, which this processor lacks "
            "(vLLM would fail at the first request); serve an 8-bit or unquantized checkpoint"
        ),
    ),
    _Rule(
        lambda settings, facts: _on_cpu(settings, facts) and _has(settings, *_OFFLOAD) is not None,
        lambda settings, facts: (
            f"--extra-arg: {_has(settings, *_OFFLOAD)} moves data from a GPU to memory, and there "
            "is no GPU on --device=cpu; leave it out and raise --kv-cache-memory-bytes"
        ),
    ),
    _Rule(
        lambda settings, facts: (
            _on_cpu(settings, facts) and _has(settings, "--enable-sleep-mode") is not None
        ),
        lambda settings, facts: (
            "--extra-arg: vLLM has no sleep mode on CPU; leave --enable-sleep-mode out"
        ),
    ),
    _Rule(
        lambda settings, facts: _on_cpu(settings, facts) and settings.tensor_parallel_size > 1,
        lambda settings, facts: (
            "--tensor-parallel-size: one CPU engine is one process; write 1 and add replicas"
        ),
    ),
    _Rule(
        lambda settings, facts: _on_cpu(settings, facts) and settings.eager is False,
        lambda settings, facts: (
            "--no-eager: compilation on CPU needs a C++ compiler, which the engine image does not "
            "carry; leave it out"
        ),
    ),
    _Rule(
        lambda settings, facts: (
            settings.dtype is Dtype.FLOAT32
            and settings.device is Device.CUDA
            and _quantization(settings, facts) is not None
        ),
        lambda settings, facts: (
            f"--dtype: {_quantization(settings, facts)} weights have no float32 kernels on CUDA; "
            "write --dtype=auto"
        ),
    ),
)


def refusal(settings: EngineSettings, facts: EngineFacts) -> str | None:
    """Return why these settings cannot work here, or `None`."""
    overriding = _overriding(settings.extra_arg)
    if overriding is not None:
        return overriding
    return next(
        (rule.sentence(settings, facts) for rule in _RULES if rule.applies(settings, facts)), None
    )


def _overriding(arguments: Sequence[str]) -> str | None:
    for argument in arguments:
        option = _option(argument)
        if not option.startswith("-"):
            continue
        for owned, ours in OWNED.items():
            if _abbreviates(option, owned):
                return (
                    f"--extra-arg: {option} is set by Tandem; write {ours} outside of --extra-arg"
                )
        for forbidden, why in FORBIDDEN.items():
            if _abbreviates(option, forbidden):
                return f"--extra-arg: {option} cannot be set, since {why}; leave it out"
    return None


def _option(argument: str) -> str:
    # vLLM takes --kv_transfer_config and --kv-transfer-config.kv_role for the same option.
    return argument.partition("=")[0].partition(".")[0].replace("_", "-").rstrip("+")


def _abbreviates(option: str, whole: str) -> bool:
    # argparse takes any unambiguous beginning for the whole, and -tp2 or -q=awq for -tp and -q.
    if whole.startswith("--"):
        return len(option) > 3 and whole.startswith(option)
    return option.startswith(whole) and not option.startswith("--")
