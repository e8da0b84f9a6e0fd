"""From the spec to the engine launcher's command line, and to the revision that pairs pods."""

import hashlib
import json

from tandem_contracts.names import CONTROL_PORT, HTTP_PORT
from tandem_operator.api import Device, PoolSpec
from tandem_operator.core.role import Role
from tandem_operator.workloads.pool_names import PoolName

MODEL_MOUNT = "/mnt/model"
STOP_MARGIN_S = 15
"""What stays of the grace period for vLLM's own stop after the drain."""
KV_LEASE_S = 30
"""How long a prefill pod keeps a prompt's KV blocks; its routers are told the same."""


def engine_args(spec: PoolSpec, role: Role, *, name: PoolName, grace_period_s: int) -> list[str]:
    """The launcher's arguments, one `--option=value` each."""
    model, engine, fleet = spec.model, spec.engine, spec.fleets[role]
    options: dict[str, object | None] = {
        "role": role,
        "model": model_location(spec),
        "model-revision": model.source.hugging_face and model.source.hugging_face.revision,
        "served-model-name": model.name,
        "device": _DEVICES[engine.device],
        "port": HTTP_PORT,
        "control-port": CONTROL_PORT,
        "max-model-len": model.max_model_len,
        "max-num-seqs": engine.max_num_seqs,
        "dtype": engine.dtype,
        "quantization": engine.quantization,
        "block-size": engine.block_size,
        "kv-cache-memory-bytes": spec.kv_cache_bytes,
        "tensor-parallel-size": fleet.gpus if engine.device is Device.NVIDIA else None,
        "kv-lease-s": KV_LEASE_S,
        "drain-timeout-s": grace_period_s - STOP_MARGIN_S,
        "warm-up-peer": name.engine_url(Role.PREFILL) if role is Role.DECODE else None,
    }
    caching = "--prefix-caching" if engine.prefix_caching else "--no-prefix-caching"
    given = [f"--{option}={value}" for option, value in options.items() if value is not None]
    return [*given, caching, *map(_extra, engine.extra_args)]


def _extra(argument: str) -> str:
    """An argument for vLLM, which the launcher may have to know of as well."""
    name, equals, value = argument.partition("=")
    ours = _LAUNCHERS_OWN.get(name.replace("_", "-"))
    return f"--extra-arg={argument}" if ours is None else f"{ours}{equals}{value}"


def model_location(spec: PoolSpec) -> str:
    """Path of the weights inside the container, or their repository on the Hub."""
    source = spec.model.source
    if source.image is not None:
        return source.image.path
    if source.persistent_volume_claim is not None:
        return (MODEL_MOUNT + source.persistent_volume_claim.path).rstrip("/")
    assert source.hugging_face is not None, "exactly one source, by the API's own rule"  # noqa: S101
    return source.hugging_face.repo


def revision_of(spec: PoolSpec, *, image: str, launcher_image: str) -> str:
    """Hash over what engines of either role must have in common to exchange KV blocks.

    A change of anything else (batch size, memory, resources) rolls pods that still pair with the
    old ones.
    """
    engine = spec.engine
    common = {
        "image": image,
        # It tells engines of each other's leases.
        "launcher_image": launcher_image,
        "model": spec.model.model_copy(update={"cache": None}).to_object(),
        "device": engine.device,
        "dtype": engine.dtype,
        "quantization": engine.quantization,
        "block_size": engine.block_size,
        "extra_args": engine.extra_args,
    }
    return digest(common)


def digest(value: object) -> str:
    """A short stable hash of plain data, fit for a label."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


# Options of vLLM without a field of the pool, by what the launcher calls them.
_LAUNCHERS_OWN = {
    "--enforce-eager": "--eager",
    "--no-enforce-eager": "--no-eager",
    "--kv-cache-dtype": "--kv-cache-dtype",
}
_DEVICES = {Device.CPU: "cpu", Device.NVIDIA: "cuda"}
