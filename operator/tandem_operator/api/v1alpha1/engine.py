"""`spec.engine`: how every engine pod runs, whatever its role."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tandem_operator.api.rules import ApiModel, Rule
from tandem_operator.api.values import Count, Flag, ImageReference, PositiveQuantity, text_rule


class Backend(StrEnum):
    """The inference engine."""

    VLLM = "VLLM"


class Device(StrEnum):
    """What the engine computes on."""

    CPU = "CPU"
    NVIDIA = "NVIDIA"


class Dtype(StrEnum):
    """Number format of the weights in memory."""

    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


_FIELD_OF_ARGUMENT: Mapping[str, str] = {
    "--model": "model.source",
    "--served-model-name": "model.name",
    "--max-model-len": "model.maxModelLen",
    "--dtype": "engine.dtype",
    "--quantization": "engine.quantization",
    "--enable-prefix-caching": "engine.prefixCaching",
    "--no-enable-prefix-caching": "engine.prefixCaching",
    "--block-size": "engine.blockSize",
    "--max-num-seqs": "engine.maxNumSeqs",
    "--kv-cache-memory-bytes": "engine.kvCacheMemory",
    "--tensor-parallel-size": "gpusPerReplica",
    "--host": "nothing",
    "--port": "nothing",
    "--kv-transfer-config": "nothing",
    "--api-key": "nothing",
}


def _sets_nothing_of_ours(arguments: tuple[str, ...]) -> bool:
    return not {argument.split("=")[0] for argument in arguments} & set(_FIELD_OF_ARGUMENT)


class Engine(ApiModel):
    """How every engine pod runs, prefill and decode alike."""

    backend: Backend = Backend.VLLM
    """Inference engine."""
    image: ImageReference | None = None
    """Image of the engine pods. Without it: the one the operator was installed with, by device."""
    device: Device = Device.NVIDIA
    """What the engine computes on. NVIDIA pods ask for nvidia.com/gpu; CPU pods for none."""
    dtype: Dtype = Dtype.AUTO
    """Number format of weights and activations; auto takes the model's own."""
    quantization: (
        Annotated[
            str,
            Field(max_length=64),
            text_rule(
                pattern="^[a-z0-9][a-z0-9_-]*$",
                message=(
                    "engine.quantization must be a method that vLLM knows; write for example fp8,"
                    " or leave it out to take the checkpoint's own"
                ),
            ),
        ]
        | None
    ) = None
    """Quantization method by vLLM's name, such as fp8. Without it: the checkpoint's own."""
    prefix_caching: Flag = True
    """Whether prompts with a common beginning share its KV cache."""
    block_size: (
        Annotated[
            Count,
            Rule(
                expression="self in [8, 16, 32, 64, 128, 256]",
                message="engine.blockSize must be 8, 16, 32, 64, 128 or 256 tokens; write 16",
                holds=lambda size: size in (8, 16, 32, 64, 128, 256),
            ),
        ]
        | None
    ) = None
    """KV cache block in tokens, the grain of prefix caching. Without it: the engine's own."""
    max_num_seqs: Annotated[Count, Field(ge=1, le=4096)] = 256
    """Most requests that one engine pod runs at the same time."""
    kv_cache_memory: PositiveQuantity | None = None
    """KV cache of one GPU (on CPU: of one pod) in bytes, as a quantity such as 64Mi. Without it:
    what the engine finds free; on CPU give it."""
    extra_args: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=512)], ...],
        Field(max_length=32),
        Rule(
            expression=(
                "!self.exists(argument, argument.split('=')[0] in ["
                + ", ".join(f"'{argument}'" for argument in _FIELD_OF_ARGUMENT)
                + "])"
            ),
            message=(
                "engine.extraArgs must not set what has a field of its own or is Tandem's to set ("
                + ", ".join(_FIELD_OF_ARGUMENT)
                + "); write for example --max-num-batched-tokens=4096"
            ),
            holds=_sets_nothing_of_ours,
        ),
    ] = ()
    """Further arguments for vLLM as they are, such as --max-num-batched-tokens=4096."""
