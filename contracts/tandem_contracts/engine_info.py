"""The answer of an engine's launcher to `GET /info` of its control port.

The operator reads each part that it needs separately. If a part is missing or invalid, only this
part is lost.
"""

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from tandem_contracts.parts import Part

MOST_POINTS = 100
LONGEST_DEVICE = 100

Size = Annotated[int, Field(ge=1, le=10**9)]
Seconds = Annotated[FiniteFloat, Field(gt=0)]
Amount = Annotated[FiniteFloat, Field(gt=0, le=1e18)]


class PromptTime(Part):
    """The time of one prompt alone, from its request to its first token."""

    prompt_tokens: Size
    seconds: Seconds


class BatchTime(Part):
    """The time of one decode step of `batch` streams that hold hardly any context."""

    batch: Size
    seconds: Seconds


class MeasuredInfo(Part):
    """Times that the launcher measured of its engine before it was Ready."""

    prefill: Annotated[tuple[PromptTime, ...], Field(max_length=MOST_POINTS)] = ()
    decode_steps: Annotated[tuple[BatchTime, ...], Field(max_length=MOST_POINTS)] = ()
    requests: int = 0
    """Number of requests that the measurement sent; vLLM's counters include them."""
    prompt_tokens: int = 0


class ShapeInfo(Part):
    """One whole copy of the model, by its config.json."""

    weight_bytes: Amount
    """Bytes of the weights that a step with a full decode batch reads."""
    kv_bytes_per_token: Amount
    flops_per_token: Amount
    attention_flops: Amount
    """Arithmetic of one token with one token of its context."""
    compute_bits: Annotated[int, Field(ge=1, le=64)]
    """Width of the numbers that are multiplied."""


class PullInfo(Part):
    """The first transfer of KV blocks to a decode engine."""

    state: Literal["done", "skipped", "failed"]
    reason: str | None = None
    tokens: int | None = None
    seconds: float | None = None


class WarmUpInfo(Part):
    """Requests of the warm-up, which no router counts."""

    requests: int
    prompt_tokens: int
    batch_1_s: float
    full_batch_s: float
    full_batch: int
    token_s: float
    """Least seconds per prompt token."""
    kv_pull: PullInfo | None


class ProbesInfo(Part):
    """Requests that the launcher sent later, to check that vLLM makes progress."""

    requests: int
    prompt_tokens: int


class HardwareInfo(Part):
    """The device that the engine runs on."""

    device: Annotated[str, Field(max_length=LONGEST_DEVICE)] | None = None
    """The driver's name of the device."""
    devices: Annotated[int, Field(ge=1, le=1024)] = 1


class EngineInfo(HardwareInfo):
    """The whole answer; an unknown value is null."""

    role: Literal["prefill", "decode"]
    revision: str | None
    """Only engines of one revision may exchange KV blocks."""
    model: str
    """The model's name in requests."""
    max_num_seqs: int
    max_model_len: int | None
    kv_capacity_tokens: int | None
    vllm_version: str | None = None
    healthy_after_s: float | None = None
    ready_after_s: float | None = None
    warm_up: WarmUpInfo | None
    measured: MeasuredInfo | None
    shape: ShapeInfo | None
    probes: ProbesInfo | None
    phase: str
    reason: str | None
    """Why the engine is not Ready."""
