"""What the launcher finds where it starts: the processor, the pod's limits, the checkpoint.

Read once, then passed on as values, so that what follows from them stays pure.
"""

import json
import math
import os
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a model's config.json says; `None` is what it does not."""

    quantization: str | None = None
    weight_bits: int | None = None
    max_positions: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
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

    @property
    def has_avx512(self) -> bool:
        """Whether vLLM's AVX-512 kernels run here."""
        return "avx512f" in self.cpu_flags

    @property
    def has_amx(self) -> bool:
        """Whether vLLM's AMX kernels run here."""
        return "amx_tile" in self.cpu_flags


def look_around(model: str, *, python: str, environment: Mapping[str, str]) -> Facts:
    """Collect the facts for serving `model` on this machine."""
    local = model.startswith(("/", "./", "../", "~")) or Path(model).is_dir()
    path = Path(model).expanduser()
    problem = _model_problem(path) if local else None
    return Facts(
        python=python,
        cpu_flags=_cpu_flags(Path("/proc/cpuinfo")),
        cpu_limit=_cpu_limit(Path("/sys/fs/cgroup")),
        pod_ip=environment.get("POD_IP"),
        cache_dir=_cache_dir(environment),
        environment=dict(environment),
        model_is_local=local,
        model_problem=problem,
        checkpoint=_checkpoint(path) if local and problem is None else None,
    )


def _model_problem(path: Path) -> str | None:
    if not path.exists():
        return f"--model: {path} is not there; give a folder with config.json and weights"
    if not (path / "config.json").is_file():
        return f"--model: {path} has no config.json; give the folder that holds it and the weights"
    try:
        json.loads((path / "config.json").read_text())
    except (OSError, ValueError) as error:
        return f"--model: {path}/config.json cannot be read ({error}); copy the model again"
    return None


def _checkpoint(path: Path) -> Checkpoint:
    config: dict[str, Any] = json.loads((path / "config.json").read_text())
    text = config.get("text_config") or config
    quantization = config.get("quantization_config") or {}
    groups = (quantization.get("config_groups") or {}).values()
    bits = [(group.get("weights") or {}).get("num_bits") for group in groups]
    return Checkpoint(
        quantization=quantization.get("quant_method"),
        weight_bits=quantization.get("bits") or next((b for b in bits if b), None),
        max_positions=text.get("max_position_embeddings"),
    )


def _cpu_flags(cpuinfo: Path) -> frozenset[str]:
    if platform.machine() != "x86_64" or not cpuinfo.is_file():
        return frozenset()
    for line in cpuinfo.read_text().splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def _cpu_limit(cgroup: Path) -> float:
    """CPUs that this process may use: its affinity, or less where a cgroup (v2 or v1) says so."""
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
    """Threads that a CPU limit feeds without one waiting for another's share."""
    return max(1, math.floor(cpu_limit))
