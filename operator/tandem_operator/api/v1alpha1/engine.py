"""`spec.engine`: how every engine pod runs, whatever its role."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tandem_operator.api.rules import ApiModel, Rule
from tandem_operator.api.v1alpha1.extra_args import ExtraArgument
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


class Engine(ApiModel):
    """How every engine pod runs, prefill and decode alike."""

    backend: Backend = Backend.VLLM
    """Inference engine."""
    image: ImageReference | None = None
    """Image of the engine pods: any with vLLM 0.32 or newer and NIXL, such as
    vllm/vllm-openai:v0.32.0. Without it: the one the operator was installed with, by device."""
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
    """Whether prompts with a common prefix share KV cache blocks."""
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
    """Tokens of a KV cache block. Prefixes share whole blocks. Without it: vLLM's default."""
    max_num_seqs: Annotated[Count, Field(ge=1, le=4096)] = 256
    """Most requests that one engine pod runs at the same time."""
    kv_cache_memory: PositiveQuantity | None = None
    """KV cache of one GPU (on CPU: of one pod) in bytes, as a quantity such as 64Mi. Without
    it, the engine takes the memory that is free. On CPU, set it."""
    extra_args: Annotated[tuple[ExtraArgument, ...], Field(max_length=32)] = ()
    """Further options for vLLM, such as --max-num-batched-tokens=4096, one an item. Those that load
    code, read files, open ports or send data elsewhere are refused, unless the installation
    allows any."""
