"""The engine launcher's command line from the spec, and the revision that pairs pods."""

import hashlib
import json
from collections.abc import Mapping

from tandem_contracts.names import CONTROL_PORT, HTTP_PORT
from tandem_operator.api import Device, PoolSpec, quantity
from tandem_operator.core.role import Role
from tandem_operator.workloads.builders import weights
from tandem_operator.workloads.builders.vllm_options import shared_options
from tandem_operator.workloads.pool_names import GPUS_OPTION, PoolName

STOP_MARGIN_S = 15
"""The part of the grace period for vLLM's own stop after the drain."""
KV_LEASE_S = 30
"""Time for which a prefill pod keeps a prompt's KV blocks; its routers know the same value."""


def engine_args(spec: PoolSpec, role: Role, *, name: PoolName, grace_period_s: int) -> list[str]:
    """Return the launcher's arguments, one `--option=value` each."""
    model, engine, fleet = spec.model, spec.engine_of(role), spec.fleets[role]
    kv_cache = engine.kv_cache_memory
    options: dict[str, object | None] = {
        "role": role,
        "model": weights.location(model.source),
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
        "kv-cache-memory-bytes": None if kv_cache is None else int(quantity(kv_cache)),
        "gpu-part": engine.gpu_part,
        GPUS_OPTION.removeprefix("--"): None if engine.device is Device.CPU else fleet.gpus,
        "kv-lease-s": KV_LEASE_S,
        "drain-timeout-s": grace_period_s - STOP_MARGIN_S,
        "warm-up-peer": name.engine_url(Role.PREFILL) if role is Role.DECODE else None,
        **weights.cache_options(model),
    }
    caching = "--prefix-caching" if engine.prefix_caching else "--no-prefix-caching"
    given = [f"--{option}={value}" for option, value in options.items() if value is not None]
    own = fleet.engine.to_object() if fleet.engine is not None else {}
    return [
        *given,
        caching,
        *map(_extra, engine.extra_args),
        *(f"--own-field={field}" for field in own),
    ]


def _extra(argument: str) -> str:
    """Return an argument for vLLM, which the launcher may need to know as well."""
    name, equals, value = argument.partition("=")
    ours = _LAUNCHERS_OWN.get(name.replace("_", "-"))
    return f"--extra-arg={argument}" if ours is None else f"{ours}{equals}{value}"


def revision_of(spec: PoolSpec, *, images: Mapping[Role, str], launcher_image: str) -> str:
    """Return a hash of the values that must match for engines to exchange KV blocks.

    A change of any other value (batch size, memory, resources) makes new pods that still pair with
    old ones.
    """
    source = spec.model.source.model_copy(update={"credentials_secret_ref": None})
    unrelated = {"cache": None, "aliases": (), "source": source}
    common = {
        # None of these changes a KV block: only routers know the aliases.
        "model": spec.model.model_copy(update=unrelated).to_object(),
        # It makes engines exchange the ends of their leases.
        "launcher_image": launcher_image,
        # Not for the blocks, but because engines on other hardware are learned separately.
        "resource": spec.engine.gpu_resource,
        "device": spec.engine.device,
        "dtype": spec.engine.dtype,
        "block_size": spec.engine.block_size,
        "engines": {role: _exchange(spec, role, image=images[role]) for role in Role},
        **_parallel(spec),
    }
    return digest(common)


def _parallel(spec: PoolSpec) -> Mapping[str, object]:
    """Return the number and the kind of GPUs of an engine; nothing for one GPU of a device plugin.

    vLLM moves KV blocks only between some sizes, and an engine of another size must be learned
    anew. Engines of older releases keep their revision, except larger ones.
    """
    gpus = {role: fleet.gpus for role, fleet in spec.fleets.items()}
    claims = {role: spec.engine_of(role).claim_template for role in Role}
    given = {"gpus": gpus} if set(gpus.values()) != {1} else {}
    return given | ({"claims": claims} if spec.engine.claim_template else {})


def _exchange(spec: PoolSpec, role: Role, *, image: str) -> Mapping[str, object]:
    engine = spec.engine_of(role)
    return {
        "image": image,
        "quantization": engine.quantization,
        "extra_args": shared_options(engine.extra_args),
    }


def digest(value: object) -> str:
    """Return a short stable hash of plain data, fit for a label."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


# Options of vLLM without a field of the pool, by the launcher's names.
_LAUNCHERS_OWN = {
    "--enforce-eager": "--eager",
    "--no-enforce-eager": "--no-eager",
    "--kv-cache-dtype": "--kv-cache-dtype",
}
# PyTorch for ROCm calls its devices cuda, too.
_DEVICES = {Device.CPU: "cpu", Device.NVIDIA: "cuda", Device.AMD: "cuda"}
