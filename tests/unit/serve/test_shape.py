"""The arithmetic and memory of a config.json, against the known numbers of the models."""

from typing import Any

import pytest

from tandem_engine.serve.engine_settings import EngineSettings
from tandem_engine.serve.served_shape import ServedShape, model_shape

LLAMA_8B: dict[str, Any] = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
QWEN_30B_A3B: dict[str, Any] = {
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
    "dtype": "bfloat16",
}
DEEPSEEK_V3: dict[str, Any] = {
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "vocab_size": 129280,
    "quantization_config": {"quant_method": "fp8"},
}


def shape(config: dict[str, Any], **options: Any) -> ServedShape:
    found = model_shape(config, EngineSettings(role="prefill", model="any", **options))
    assert found is not None
    return found


def test_a_dense_model_reads_all_its_weights_but_the_embedding() -> None:
    found = shape(LLAMA_8B)

    # 8.03e9 parameters, 0.53e9 of them the embedding.
    assert found.weight_bytes == pytest.approx(2 * 7.5e9, rel=0.01)
    assert found.flops_per_token == pytest.approx(2 * 6.98e9, rel=0.01)
    assert found.kv_bytes_per_token == 131072
    assert found.attention_flops == 4 * 32 * 32 * 128
    assert found.compute_bits == 16


def test_a_mixture_reads_every_expert_and_uses_a_few() -> None:
    found = shape(QWEN_30B_A3B)

    # 30.5e9 parameters, 3.3e9 of them active; 0.31e9 each in the embedding and the head.
    assert found.weight_bytes == pytest.approx(2 * 30.2e9, rel=0.01)
    assert found.flops_per_token == pytest.approx(2 * 2.7e9, rel=0.03)


def test_latent_attention_caches_what_it_compresses() -> None:
    found = shape(DEEPSEEK_V3)

    # 671e9 parameters in 8 bits, 37e9 active.
    assert found.kv_bytes_per_token == 61 * (512 + 64) * 2
    assert found.weight_bytes == pytest.approx(671e9, rel=0.01)
    assert found.flops_per_token == pytest.approx(2 * 36e9, rel=0.02)
    assert found.compute_bits == 8


def test_layers_with_a_window_add_nothing_for_longer_contexts() -> None:
    kinds = ["sliding_attention", "full_attention"] * 16

    found, full = shape(LLAMA_8B | {"layer_types": kinds}), shape(LLAMA_8B)

    assert found.kv_bytes_per_token == full.kv_bytes_per_token / 2
    assert found.attention_flops == full.attention_flops / 2
    assert found.weight_bytes == full.weight_bytes


@pytest.mark.parametrize(
    ("quantization", "options", "bits", "compute"),
    [
        ({"quant_method": "awq", "bits": 4}, {}, 4, 16),
        ({"quant_method": "fp8"}, {}, 8, 8),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, {}, 8, 8),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, {}, 4, 16),
        (None, {"quantization": "fp8"}, 8, 8),
        (None, {"dtype": "float32"}, 32, 32),
        ({"quant_method": "new-one"}, {}, 16, 16),
        # A checkpoint in 32 bits is run in 16.
        (None, {}, 16, 16),
    ],
)
def test_weights_are_as_wide_as_they_are_stored(
    quantization: dict[str, Any] | None, options: dict[str, Any], bits: int, compute: int
) -> None:
    config = LLAMA_8B | {"torch_dtype": "float32", "vocab_size": 0}
    if quantization is not None:
        config["quantization_config"] = quantization

    found = shape(config, **options)

    assert found.weight_bytes == pytest.approx(bits / 8 * 6.98e9, rel=0.01)
    assert found.compute_bits == compute


def test_a_cache_in_eight_bits_is_half_as_large() -> None:
    narrow = shape(LLAMA_8B, kv_cache_dtype="fp8_e4m3")

    assert narrow.kv_bytes_per_token == shape(LLAMA_8B).kv_bytes_per_token / 2


def test_a_model_of_text_and_pictures_is_as_its_text_part() -> None:
    assert shape({"text_config": LLAMA_8B, "vision_config": {}}) == shape(LLAMA_8B)


@pytest.mark.parametrize("missing", ["hidden_size", "num_attention_heads", "intermediate_size"])
def test_a_model_that_does_not_say_enough_has_no_shape(missing: str) -> None:
    config = {key: value for key, value in LLAMA_8B.items() if key != missing}

    assert model_shape(config, EngineSettings(role="prefill", model="any")) is None


@pytest.mark.parametrize("size", [10**400, float("inf"), float("nan")], ids=["huge", "inf", "nan"])
def test_a_model_of_a_size_beyond_numbers_has_no_shape(size: float) -> None:
    config = LLAMA_8B | {"hidden_size": size}

    assert model_shape(config, EngineSettings(role="prefill", model="any")) is None
