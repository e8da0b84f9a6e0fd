"""The settings of one engine pod: one table behind the command line, its help and its checks."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tandem_contracts.names import CONTROL_PORT, HTTP_PORT, SIDE_CHANNEL_PORT


class Role(StrEnum):
    """The job of an engine in its pool."""

    PREFILL = "prefill"
    DECODE = "decode"


class Device(StrEnum):
    """Hardware that the engine computes on."""

    CPU = "cpu"
    CUDA = "cuda"


class Dtype(StrEnum):
    """Number format of weights and activations."""

    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


Port = Annotated[int, Field(ge=1, le=65535)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0)]


class EngineSettings(BaseModel):
    """Settings of one engine; each field is the option of the same name."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    role: Role
    """Fleet that this engine belongs to."""
    model: Annotated[str, Field(min_length=1)]
    """Folder of the weights, a Hugging Face repository such as org/name, or a folder in object
    storage such as s3://bucket/folder."""
    model_revision: str | None = None
    """Branch, tag or commit of the repository. Without it: its main branch."""
    fetch_into: str | None = None
    """Folder that engines share: the first copies an s3:// or gs:// model there, all load it from
    there. Without it: vLLM streams such a model."""
    required_cache: str | None = None
    """Folder that the engine must be able to write to, since its pool shares it between pods."""
    served_model_name: str | None = None
    """Model name that clients use. Without it: the model as given."""
    device: Device = Device.CPU
    """Hardware that the engine computes on."""
    gpu_part: str | None = None
    """Part of a GPU that the engine gets, such as "MIG 1g.10gb" or shared. Without it: whole
    GPUs."""
    host: str | None = None
    """Address that both ports listen on. Without it: all of the pod, IPv6 ones too."""
    port: Port = HTTP_PORT
    """Port of vLLM's HTTP API."""
    control_port: Port = CONTROL_PORT
    """Port of the launcher: /live, /ready, /startup and /info."""
    side_channel_port: Port = SIDE_CHANNEL_PORT
    """Port of NIXL's handshake between engines."""
    dtype: Dtype = Dtype.AUTO
    """Number format of weights and activations; auto takes the model's own."""
    quantization: str | None = None
    """Quantization method by vLLM's name. Without it: the checkpoint's own."""
    kv_cache_dtype: str = "auto"
    """Number format of the KV cache, such as fp8; auto takes the model's."""
    block_size: Count | None = None
    """KV cache block in tokens. Without it: vLLM's own choice."""
    prefix_caching: bool = True
    """Whether prompts with a common prefix share its KV cache."""
    tensor_parallel_size: Count = 1
    """Number of devices that hold one copy of the model."""
    max_num_seqs: Count = 256
    """Most requests that run at the same time."""
    max_model_len: Count | None = None
    """Most tokens of prompt and answer together. Without it: the model's own limit."""
    kv_cache_memory_bytes: Count | None = None
    """Size of the KV cache per device. Without it: the free memory that vLLM finds (on CPU: 64
    MiB)."""
    eager: bool | None = None
    """Whether to skip compilation and graph capture. Without it: on CPU yes, on CUDA no."""
    cpu_threads: Count | None = None
    """Compute threads on CPU. Without it: the pod's CPU limit, rounded down, at least 1."""
    not_ready_after_s: Annotated[float, Field(ge=1)] = 20.0
    """Longest time without progress of vLLM before the pod is not Ready; longer on a slow
    machine."""
    not_live_after_s: Annotated[float, Field(ge=2)] = 60.0
    """Longest time without progress of vLLM before the launcher restarts it."""
    kv_lease_s: Annotated[int, Field(ge=6)] = 30
    """Seconds for which a prefill engine keeps KV blocks that no decode engine pulled."""
    drain_timeout_s: Seconds = 120.0
    """Longest wait for running requests and outstanding KV leases after SIGTERM."""
    drain_settle_s: Seconds = 3.0
    """Least time from leaving readiness to stopping vLLM, for routers to notice."""
    stop_timeout_s: Annotated[int, Field(ge=1)] = 10
    """Seconds that vLLM gets to stop once it is drained."""
    warm_up_peer: str | None = None
    """URL of a prefill engine for a decode engine's first KV pull; skipped if none answers."""
    warm_up_peer_timeout_s: Seconds = 5.0
    """Longest wait for that peer."""
    termination_log: str = "/dev/termination-log"
    """File for the reason of a failure, if it can be written."""
    extra_arg: tuple[str, ...] = ()
    """One further argument for vLLM as it is, such as --max-num-batched-tokens=4096; repeatable."""

    own_field: tuple[str, ...] = ()
    """One field that this role sets itself in the pool, such as maxNumSeqs; repeatable."""

    @property
    def name(self) -> str:
        """Return the model's name in requests."""
        return self.served_model_name or self.model

    @property
    def url(self) -> str:
        """Return the URL of vLLM's own API, from within the pod."""
        return f"http://127.0.0.1:{self.port}"

    @model_validator(mode="after")
    def _ports_differ(self) -> Self:
        ports = (self.port, self.control_port, self.side_channel_port)
        if len(set(ports)) < len(ports):
            raise ValueError(
                "--port, --control-port and --side-channel-port must differ; "
                "write for example --port=8000 --control-port=8001 --side-channel-port=5600"
            )
        return self

    @model_validator(mode="after")
    def _ready_ends_first(self) -> Self:
        if self.not_live_after_s <= self.not_ready_after_s:
            raise ValueError(
                f"--not-live-after-s must be more than --not-ready-after-s, which is "
                f"{self.not_ready_after_s:g}; write for example "
                f"--not-live-after-s={3 * self.not_ready_after_s:g}"
            )
        return self

    @model_validator(mode="after")
    def _peer_suits_role(self) -> Self:
        if self.warm_up_peer is None:
            return self
        if self.role is Role.PREFILL:
            raise ValueError("--warm-up-peer is for --role=decode only; leave it out here")
        if not self.warm_up_peer.startswith(("http://", "https://")):
            raise ValueError(
                f"--warm-up-peer must be a URL, not {self.warm_up_peer!r}; "
                "write for example http://tiny-prefill:8000"
            )
        return self
