"""`spec.engine`, and what `spec.prefill.engine` and `spec.decode.engine` may say otherwise."""

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


Quantization = Annotated[
    str,
    Field(max_length=64),
    text_rule(
        pattern="^[a-z0-9][a-z0-9_-]*$",
        message=(
            "quantization must be a method that vLLM knows; write for example fp8,"
            " or leave it out to take the checkpoint's own"
        ),
    ),
]
Sequences = Annotated[Count, Field(ge=1, le=4096)]
ExtraArguments = Annotated[tuple[ExtraArgument, ...], Field(max_length=32)]


GPU_RESOURCE = "nvidia.com/gpu"
_MIG = "/mig-"
_SHARED = ".shared"


class Accelerator(ApiModel):
    """The GPUs, or parts of GPUs, that the nodes offer to engine pods."""

    resource: Annotated[
        str,
        Field(max_length=128),
        text_rule(
            pattern="^nvidia[.]com/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
            message=(
                "accelerator.resource must be one that NVIDIA's device plugin offers; write"
                " nvidia.com/gpu, or for example nvidia.com/mig-1g.10gb"
            ),
        ),
    ]
    """Extended resource of the nodes, such as nvidia.com/mig-1g.10gb."""


class Engine(ApiModel):
    """How every engine pod runs, unless its role has a value of its own."""

    backend: Backend = Backend.VLLM
    """Inference engine."""
    image: ImageReference | None = None
    """Image of the engine pods: any with vLLM 0.32 or newer and NIXL, such as
    vllm/vllm-openai:v0.32.0. Without it: the one the operator was installed with, by device."""
    device: Device = Device.NVIDIA
    """What the engine computes on."""
    accelerator: Accelerator | None = None
    """The resource that NVIDIA pods ask for, gpusPerReplica of it. Without it: nvidia.com/gpu. An
    edit rolls the pods of both roles. Budgets, quotas and GPU hours count this resource."""
    dtype: Dtype = Dtype.AUTO
    """Number format of weights and activations; auto takes the model's own."""
    quantization: Quantization | None = None
    """Quantization method by vLLM's name, such as fp8. Without it: the checkpoint's own."""
    prefix_caching: Flag = True
    """Whether prompts with a common prefix share KV cache blocks."""
    block_size: (
        Annotated[
            Count,
            Rule(
                expression="self in [8, 16, 32, 64, 128, 256]",
                message="blockSize must be 8, 16, 32, 64, 128 or 256 tokens; write 16",
                holds=lambda size: size in (8, 16, 32, 64, 128, 256),
            ),
        ]
        | None
    ) = None
    """Tokens of a KV cache block. Prefixes share whole blocks. Without it: vLLM's default."""
    max_num_seqs: Sequences = 256
    """Most requests that one engine pod runs at the same time."""
    kv_cache_memory: PositiveQuantity | None = None
    """KV cache of one GPU (on CPU: of one pod) in bytes, as a quantity such as 64Mi. Without
    it, the engine takes the memory that is free. On CPU, set it."""
    extra_args: ExtraArguments = ()
    """Further options for vLLM, such as --max-num-batched-tokens=4096, one an item. Those that load
    code, read files, open ports or send data elsewhere are refused, unless the installation
    allows any."""

    @property
    def gpu_resource(self) -> str | None:
        """The resource that engine pods ask for; `None` on CPU."""
        if self.device is Device.CPU:
            return None
        return GPU_RESOURCE if self.accelerator is None else self.accelerator.resource

    @property
    def gpu_part(self) -> str | None:
        """What of a GPU an engine gets, such as `MIG 1g.10gb`; `None`: all of it, or none."""
        resource = self.gpu_resource or ""
        if _MIG in resource:
            return f"MIG {resource.partition(_MIG)[2]}"
        return "shared" if resource.endswith(_SHARED) else None

    def with_own(self, own: "RoleEngine | None") -> "Engine":
        """The engine of a role that has values of its own."""
        given = {} if own is None else {name: getattr(own, name) for name in type(own).model_fields}
        return self.model_copy(
            update={name: value for name, value in given.items() if value is not None}
        )


class RoleEngine(ApiModel):
    """What the engines of one role have of their own.

    A field here takes the place of the same field of spec.engine, a list as a whole. Fields that
    are left out stay as spec.engine has them.
    """

    # Not the block size: with 64 tokens beside prefill's 32, vLLM 0.32.0 pulls every block, and on
    # CPU answers with other tokens.
    image: ImageReference | None = None
    """Image of this role's engine pods. It must hold the same version of vLLM as the other's. A
    change rolls the pods of both roles."""
    quantization: Quantization | None = None
    """Quantization method by vLLM's name, such as fp8."""
    prefix_caching: Flag | None = None
    """Whether prompts with a common prefix share KV cache blocks."""
    max_num_seqs: Sequences | None = None
    """Most requests that one engine pod runs at the same time."""
    kv_cache_memory: PositiveQuantity | None = None
    """KV cache of one GPU (on CPU: of one pod) in bytes, as a quantity such as 64Mi."""
    extra_args: ExtraArguments | None = None
    """Options for vLLM in place of all those of spec.engine.extraArgs, one an item. Options that
    shape KV blocks or text, such as --kv-cache-dtype=fp8, must be the same for both roles."""
