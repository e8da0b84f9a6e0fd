"""The cost of one token in arithmetic and memory traffic, from a model's config.json.

With a processor's data sheet, the operator gets a first guess of costs that an engine cannot
measure quickly. These are the costs of long prompts and full caches (the roofline model).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tandem_engine.serve.engine_facts import checkpoint_of
from tandem_engine.serve.engine_settings import Dtype, EngineSettings

_HALF = 16
_CACHE_BITS = {"float32": 32, "bfloat16": 16, "float16": 16, "fp8": 8, "int8": 8}
# Bits by a part of the quantization method's name, if the config gives none.
_METHOD_BITS = {"fp4": 4, "fp8": 8, "int8": 8, "awq": 4, "gptq": 4}
# Layers of these kinds read a window or a state of one size, whatever the context is.
_BOUNDED_LAYERS = frozenset({"sliding_attention", "chunked_attention", "linear_attention", "mamba"})


@dataclass(frozen=True, slots=True)
class ServedShape:
    """One whole copy of a model, on any number of devices.

    Attributes:
        weight_bytes: bytes of the weights that a step with a full decode batch reads.
        kv_bytes_per_token: bytes of one token in the KV cache.
        flops_per_token: arithmetic of one token with the weights, two for each active weight.
        attention_flops: arithmetic of one token with one token of its context.
        compute_bits: width of the numbers that are multiplied.
    """

    weight_bytes: float
    kv_bytes_per_token: float
    flops_per_token: float
    attention_flops: float
    compute_bits: int


@dataclass(frozen=True, slots=True)
class _Layer:
    """Attention of one layer: its weights, values cached per token, products per token pair."""

    weights: float
    cached: float
    products: float


def model_shape(config: Mapping[str, Any], settings: EngineSettings) -> ServedShape | None:
    """Return the shape of a decoder of attention and gated layers; `None` for other models."""
    try:
        return _shape(config, settings)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        return None


def _shape(config: Mapping[str, Any], settings: EngineSettings) -> ServedShape:
    text = config.get("text_config") or config
    layers, hidden, vocabulary = (
        int(text[key]) for key in ("num_hidden_layers", "hidden_size", "vocab_size")
    )
    attention = _latent(text, hidden) if text.get("kv_lora_rank") else _grouped(text, hidden)
    read, used = _feed_forward(text, layers, hidden)
    # vLLM runs every checkpoint in 16 bits by default.
    plain = 32 if settings.dtype is Dtype.FLOAT32 else _HALF
    weight = _weight_bits(config, settings) or plain
    cached = _CACHE_BITS.get(settings.kv_cache_dtype.partition("_")[0], plain)
    kinds = text.get("layer_types") or ()
    growing = sum(1 for kind in kinds if kind not in _BOUNDED_LAYERS) if kinds else layers
    projections = layers * attention.weights
    return ServedShape(
        weight_bytes=((projections + read) * weight + vocabulary * hidden * plain) / 8,
        kv_bytes_per_token=growing * attention.cached * cached / 8,
        flops_per_token=2.0 * (projections + used),
        attention_flops=2.0 * growing * attention.products,
        compute_bits=weight if weight in (8, 32) else _HALF,
    )


def _grouped(text: Mapping[str, Any], hidden: int) -> _Layer:
    """Return multi-head attention whose heads share keys and values in groups."""
    heads = int(text["num_attention_heads"])
    shared = int(text.get("num_key_value_heads") or heads)
    size = int(text.get("head_dim") or hidden // heads)
    return _Layer(
        weights=2 * hidden * size * (heads + shared),
        cached=2 * shared * size,
        products=2 * heads * size,
    )


def _latent(text: Mapping[str, Any], hidden: int) -> _Layer:
    """Return multi-head latent attention, which caches only compressed keys and values."""
    heads, latent = int(text["num_attention_heads"]), int(text["kv_lora_rank"])
    rotary, plain, value = (
        int(text[key]) for key in ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    )
    queries = heads * (plain + rotary)
    rank = int(text.get("q_lora_rank") or 0)
    return _Layer(
        weights=(
            (rank * (hidden + queries) if rank else hidden * queries)
            + hidden * (latent + rotary)
            + latent * heads * (plain + value)
            + heads * value * hidden
        ),
        cached=latent + rotary,
        products=queries + heads * value,
    )


def _feed_forward(text: Mapping[str, Any], layers: int, hidden: int) -> tuple[float, float]:
    """Return weights of all layers that a full batch reads, and those that one token uses."""
    dense = 3 * hidden * int(text["intermediate_size"])
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    experts = next((int(text[name]) for name in names if text.get(name)), 0)
    if experts <= 1:
        return layers * dense, layers * dense
    one = 3 * hidden * int(text.get("moe_intermediate_size") or text["intermediate_size"])
    chosen = int(text.get("num_experts_per_tok") or text["top_k"])
    always = int(text.get("n_shared_experts") or 0)
    first = int(text.get("first_k_dense_replace") or 0)
    sparse = layers - first
    return (
        first * dense + sparse * (experts + always) * one,
        first * dense + sparse * (chosen + always) * one,
    )


def _weight_bits(config: Mapping[str, Any], settings: EngineSettings) -> int | None:
    checkpoint = checkpoint_of(config)
    method = settings.quantization or checkpoint.quantization
    if method is None:
        return None
    algorithm = (config.get("quantization_config") or {}).get("quant_algo") or ""
    named = f"{method} {algorithm}".lower()
    return checkpoint.weight_bits or next(
        (bits for part, bits in _METHOD_BITS.items() if part in named), None
    )
