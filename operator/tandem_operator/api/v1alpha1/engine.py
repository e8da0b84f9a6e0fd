"""`spec.engine`, and the fields that `spec.prefill.engine` and `spec.decode.engine` replace."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from tandem_operator.api.rules import ApiModel, Rule
from tandem_operator.api.v1alpha1.extra_args import ExtraArgument
from tandem_operator.api.values import (
    Count,
    Flag,
    ImageReference,
    PositiveQuantity,
    text_rule,
)


class Backend(StrEnum):
    """The inference engine."""

    VLLM = "VLLM"


class Device(StrEnum):
    """Hardware that the engine computes on."""

    CPU = "CPU"
    NVIDIA = "NVIDIA"
    AMD = "AMD"


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


WHOLE_GPUS = {Device.NVIDIA: "nvidia.com/gpu", Device.AMD: "amd.com/gpu"}
"""The resource name of a whole GPU at the device plugin of each vendor."""
_MIG = "/mig-"
_SHARED = ".shared"


ClaimTemplateName = Annotated[str, Field(max_length=253)]


class Accelerator(ApiModel):
    """GPUs of engine pods: an extended resource, or a claim. Exactly one of the two."""

    resource: (
        Annotated[
            str,
            Field(max_length=128),
            text_rule(
                pattern="^(nvidia|amd)[.]com/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
                message=(
                    "accelerator.resource must be one that the device plugin of NVIDIA or AMD"
                    " offers; write nvidia.com/gpu, amd.com/gpu or nvidia.com/mig-1g.10gb"
                ),
            ),
        ]
        | None
    ) = None
    """Extended resource of the nodes, such as nvidia.com/mig-1g.10gb."""
    resource_claim_template_name: ClaimTemplateName | None = None
    """ResourceClaimTemplate by which each engine pod claims gpusPerReplica GPUs."""

    rules: ClassVar = (
        Rule(
            expression="has(self.resource) != has(self.resourceClaimTemplateName)",
            message=(
                "engine.accelerator needs either resource or resourceClaimTemplateName; write"
                " resource: nvidia.com/gpu"
            ),
            holds=lambda given: (
                (given.resource is None) != (given.resource_claim_template_name is None)
            ),
        ),
    )


class Engine(ApiModel):
    """Settings of all engine pods, unless their role has its own."""

    backend: Backend = Backend.VLLM
    """Inference engine."""
    image: ImageReference | None = None
    """Image of the engine pods: any with vLLM 0.32 or newer and NIXL, such as
    vllm/vllm-openai:v0.32.0. Without it: the one the operator was installed with for this
    device."""
    device: Device = Device.NVIDIA
    """Hardware that the engine computes on."""
    accelerator: Accelerator | None = None
    """GPUs that engine pods ask for. Without it: gpusPerReplica of nvidia.com/gpu or amd.com/gpu.
    An edit rolls the pods of both roles. Budgets, quotas and GPU hours count this resource."""
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
    """Further options for vLLM, such as --max-num-batched-tokens=4096, one an item. Options that
    load code, read files, open ports or send data elsewhere are refused, unless the installation
    allows any."""

    @property
    def gpu_resource(self) -> str | None:
        """The extended resource that engine pods ask for; `None` on CPU, or with claims."""
        if self.device is Device.CPU:
            return None
        given = self.accelerator
        return WHOLE_GPUS[self.device] if given is None else given.resource

    @property
    def claim_template(self) -> str | None:
        """The ResourceClaimTemplate of engine pods, if they claim their GPUs."""
        given = self.accelerator
        return None if given is None else given.resource_claim_template_name

    @property
    def gpu_part(self) -> str | None:
        """The part of a GPU that an engine gets, such as `MIG 1g.10gb`; `None`: no part."""
        resource = self.gpu_resource or ""
        if _MIG in resource:
            return f"MIG {resource.partition(_MIG)[2]}"
        return "shared" if resource.endswith(_SHARED) else None

    def with_own(self, own: "RoleEngine | None") -> "Engine":
        """The engine settings of a role, with its own values."""
        given = {} if own is None else {name: getattr(own, name) for name in type(own).model_fields}
        claim = given.pop("resource_claim_template_name", None)
        if claim is not None:
            given["accelerator"] = Accelerator(resource_claim_template_name=claim)
        return self.model_copy(
            update={name: value for name, value in given.items() if value is not None}
        )


class RoleEngine(ApiModel):
    """Engine settings of one role.

    Each field replaces the same field of spec.engine; a list is replaced as a whole. Fields that
    are left out keep the values of spec.engine.
    """

    # Not the block size: with 64 tokens beside prefill's 32, vLLM 0.32.0 pulls every block, and on
    # CPU answers with other tokens.
    image: ImageReference | None = None
    """Image of this role's engine pods. It must hold the same version of vLLM as the image of the
    other role. A change rolls the pods of both roles."""
    resource_claim_template_name: ClaimTemplateName | None = None
    """Replaces that of engine.accelerator, for a role with another number of GPUs."""
    quantization: Quantization | None = None
    """Quantization method by vLLM's name, such as fp8."""
    prefix_caching: Flag | None = None
    """Whether prompts with a common prefix share KV cache blocks."""
    max_num_seqs: Sequences | None = None
    """Most requests that one engine pod runs at the same time."""
    kv_cache_memory: PositiveQuantity | None = None
    """KV cache of one GPU (on CPU: of one pod) in bytes, as a quantity such as 64Mi."""
    extra_args: ExtraArguments | None = None
    """Options for vLLM that replace all those of spec.engine.extraArgs, one an item. Options that
    shape KV blocks or text, such as --kv-cache-dtype=fp8, must be the same for both roles."""
