"""The facts of the launcher's machine: the processor, the pod's limits, the checkpoint.

They are read once and then passed on as values. So all functions that use them are pure.
"""

import contextlib
import json
import math
import os
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem_contracts.names import POD_IP_ENV
from tandem_engine.serve.object_storage import scheme_of, streamed_config


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The facts in a model's config.json; `None` if a fact is missing."""

    quantization: str | None = None
    weight_bits: int | None = None
    max_positions: int | None = None


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The surroundings of one engine."""

    python: str
    cpu_flags: frozenset[str]
    cpu_limit: float
    pod_ip: str | None
    cache_dir: str
    environment: Mapping[str, str]
    model_is_local: bool
    model_problem: str | None = None
    checkpoint: Checkpoint | None = None
    gpu: str | None = None

    @property
    def has_avx512(self) -> bool:
        """Return whether vLLM's AVX-512 kernels run here."""
        return "avx512f" in self.cpu_flags

    @property
    def has_amx(self) -> bool:
        """Return whether vLLM's AMX kernels run here."""
        return "amx_tile" in self.cpu_flags


def look_around(model: str, *, python: str, environment: Mapping[str, str]) -> EngineFacts:
    """Collect the facts for serving `model` on this machine."""
    local = model.startswith(("/", "./", "../", "~")) or Path(model).is_dir()
    path = Path(model).expanduser()
    problem = _model_problem(path) if local else None
    return EngineFacts(
        python=python,
        cpu_flags=_cpu_flags(Path("/proc/cpuinfo")),
        cpu_limit=_cpu_limit(Path("/sys/fs/cgroup")),
        pod_ip=environment.get(POD_IP_ENV),
        cache_dir=_cache_dir(environment),
        environment=dict(environment),
        model_is_local=local,
        model_problem=problem,
        checkpoint=checkpoint_of(_config_in(path)) if local and problem is None else None,
        gpu=gpu_name(Path("/proc/driver/nvidia/gpus")),
    )


def _model_problem(path: Path) -> str | None:
    if not path.exists():
        return f"--model: {path} does not exist; give a folder with config.json and weights"
    if not (path / "config.json").is_file():
        return f"--model: {path} has no config.json; give the folder that holds it and the weights"
    try:
        config = _config_in(path)
    except (OSError, ValueError, RecursionError) as error:
        return f"--model: {path}/config.json cannot be read ({error}); copy the model again"
    if not isinstance(config, dict):
        return f"--model: {path}/config.json holds no JSON object; copy the model again"
    return None


def read_config(
    model: str, *, revision: str | None, environment: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the model's config.json from its folder or vLLM's cache; `None` if neither has it.

    `environment` is that of vLLM: it names the caches.
    """
    if scheme_of(model) is not None:
        folder = streamed_config(model, environment)
        return _config_in(folder) if (folder / "config.json").is_file() else None
    folder = Path(model).expanduser()
    if (folder / "config.json").is_file():
        return _config_in(folder)
    home = environment.get("HF_HOME")
    cache = environment.get("HF_HUB_CACHE") or (f"{home}/hub" if home else None)
    try:
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - it comes with vLLM
    except ImportError:
        return None
    found = try_to_load_from_cache(model, "config.json", cache_dir=cache, revision=revision)
    return _config_in(Path(found).parent) if isinstance(found, str) else None


def _config_in(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config


def checkpoint_of(config: Mapping[str, Any]) -> Checkpoint:
    """Return the storage of the weights by a config.json; invalid entries count as missing."""
    text = _mapping(config.get("text_config")) or config
    quantization = _mapping(config.get("quantization_config"))
    groups = _mapping(quantization.get("config_groups")).values()
    stored = [_mapping(_mapping(group).get("weights")).get("num_bits") for group in groups]
    method = quantization.get("quant_method")
    return Checkpoint(
        quantization=method if isinstance(method, str) else None,
        weight_bits=next(filter(None, map(_count, (quantization.get("bits"), *stored))), None),
        max_positions=_max_positions(text),
    )


def _max_positions(text: Mapping[str, Any]) -> int | None:
    """Return the longest context, unless vLLM may allow more: it knows how far RoPE reaches."""
    rope = _mapping(text.get("rope_scaling") or text.get("rope_parameters"))
    # Layers of each kind may have parameters of their own.
    stretched = any("factor" in part for part in (rope, *map(_mapping, rope.values())))
    if stretched or "model_max_length" in text:
        return None
    return _count(text.get("max_position_embeddings"))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def gpu_name(gpus: Path) -> str | None:
    """Return the driver's name of the first NVIDIA GPU; the kernel shows it in every pod."""
    # Only a first guess depends on it: an unreadable name counts as unknown.
    with contextlib.suppress(OSError):
        for information in sorted(gpus.glob("*/information")):
            for line in information.read_text(errors="replace").splitlines():
                name, _, value = line.partition(":")
                if name.strip() == "Model":
                    return value.strip()
    return None


def _cpu_flags(cpuinfo: Path) -> frozenset[str]:
    if platform.machine() != "x86_64" or not cpuinfo.is_file():
        return frozenset()
    for line in cpuinfo.read_text().splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def _cpu_limit(cgroup: Path) -> float:
    """Return the CPUs of this process: its affinity, or less if a cgroup (v2 or v1) limits it."""
    cpus = float(len(os.sched_getaffinity(0)))
    v2, v1 = cgroup / "cpu.max", cgroup / "cpu"
    if v2.is_file():
        quota, period = v2.read_text().split()
    elif (v1 / "cpu.cfs_quota_us").is_file():
        quota = (v1 / "cpu.cfs_quota_us").read_text().strip()
        period = (v1 / "cpu.cfs_period_us").read_text().strip()
    else:
        return cpus
    unlimited = quota in ("max", "-1")
    return cpus if unlimited else min(cpus, float(quota) / float(period))


def _cache_dir(environment: Mapping[str, str]) -> str:
    home = environment.get("HOME", "")
    parent = home if home and os.access(home, os.W_OK) else tempfile.gettempdir()
    return str(Path(parent) / ".cache" / "tandem-engine")


def whole_threads(cpu_limit: float) -> int:
    """Return the threads that a CPU limit can run without waits for each other."""
    return max(1, math.floor(cpu_limit))
