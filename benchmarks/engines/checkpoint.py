"""Write a checkpoint of random weights in the shape of a model: as fast or slow as the real one.

Run by the engine's own interpreter, which has torch. The tokenizer has a word for each id.

    python3 checkpoint.py FOLDER '{"num_hidden_layers": 32, ...}'
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

SPREAD = 0.02
MAX_POSITIONS = 32768
SPECIAL = {"unk_token": 0, "bos_token": 1, "eos_token": 2}


def save_tokenizer(folder: Path, vocabulary: int) -> None:
    """Write a tokenizer of words w0, w1, ... that are split at blanks."""
    words = models.WordLevel({f"w{i}": i for i in range(vocabulary)}, unk_token="w0")
    tokenizer = Tokenizer(words)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {name: f"w{number}" for name, number in SPECIAL.items()}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def shards(config: dict[str, int]) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield the names and sizes of the weights, a file's worth at a time."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    shared = config["num_key_value_heads"] * config["head_dim"]
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        yield {
            f"{name}.input_layernorm.weight": (hidden,),
            f"{name}.post_attention_layernorm.weight": (hidden,),
            f"{name}.self_attn.q_proj.weight": (queries, hidden),
            f"{name}.self_attn.k_proj.weight": (shared, hidden),
            f"{name}.self_attn.v_proj.weight": (shared, hidden),
            f"{name}.self_attn.o_proj.weight": (hidden, queries),
            f"{name}.mlp.gate_proj.weight": (inner, hidden),
            f"{name}.mlp.up_proj.weight": (inner, hidden),
            f"{name}.mlp.down_proj.weight": (hidden, inner),
        }
    yield {
        "model.embed_tokens.weight": (config["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (config["vocab_size"], hidden),
    }


def save_weights(folder: Path, config: dict[str, int]) -> None:
    """Draw the weights where it is quick, one file per layer."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    draw = torch.Generator(device).manual_seed(0)
    where = {}
    for number, shard in enumerate(shards(config)):
        file = f"model-{number:05d}.safetensors"
        weights = {}
        for name, size in shard.items():
            one = torch.ones(size, dtype=torch.bfloat16, device=device)
            if len(size) > 1:
                one.normal_(0.0, SPREAD, generator=draw)
            weights[name] = one.cpu()
            where[name] = file
        save_file(weights, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


if __name__ == "__main__":
    target, shape = Path(sys.argv[1]), json.loads(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    save_tokenizer(target, shape["vocab_size"])
    save_weights(target, shape)
    (target / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["LlamaForCausalLM"],
                "model_type": "llama",
                "hidden_act": "silu",
                "max_position_embeddings": MAX_POSITIONS,
                "rms_norm_eps": 1e-5,
                "rope_theta": 500000.0,
                "tie_word_embeddings": False,
                "bos_token_id": SPECIAL["bos_token"],
                "eos_token_id": SPECIAL["eos_token"],
                **shape,
            }
        )
    )
