"""Write the demo model: a random Llama of a few MB with a tokenizer and chat template of its own.

Nothing in it was trained on or copied from anything, so it carries no licence. Equal seeds give
equal files, and its answers, although without meaning, are equal word for word wherever it runs in
float32.

    python3 tiny_model.py FOLDER
"""

import random
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY_TOKENS = 1024
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 128, 4, 4, 2, 32
MAX_POSITIONS = 4096
SEED = 0
SPECIAL = ("<s>", "</s>", "<pad>")

WORDS = (Path(__file__).parent / "words.txt").read_text().split()

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def save_tokenizer(folder: Path) -> None:
    """Train a byte-level BPE on shuffled words, so that most tokens are whole words."""
    words = random.Random(SEED)
    corpus = [" ".join(words.sample(WORDS, k=40)) for _ in range(600)]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_TOKENS,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(corpus, trainer)
    if bpe.get_vocab_size() != VOCABULARY_TOKENS:
        sys.exit(f"the vocabulary has {bpe.get_vocab_size()} tokens: WORDS has too few letters")
    bos, eos, pad = SPECIAL
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token=bos, eos_token=eos, pad_token=pad
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)


def save_weights(folder: Path) -> None:
    """Draw the weights; special tokens' output rows stay zero: answers run to their limit."""
    config = LlamaConfig(
        vocab_size=VOCABULARY_TOKENS,
        hidden_size=HIDDEN,
        intermediate_size=3 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        max_position_embeddings=MAX_POSITIONS,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        tie_word_embeddings=False,
        dtype="float32",
    )
    model = LlamaForCausalLM(config)
    draw = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, weights in sorted(model.named_parameters()):
            if weights.dim() > 1:
                spread = 1.0 if "embed" in name else 0.08
                weights.normal_(0.0, spread, generator=draw)
        # Words before byte fragments: readable answers, of words in an order without meaning.
        model.lm_head.weight[: len(SPECIAL) + 256] *= 0.0
    model.to(torch.float32).save_pretrained(folder)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    save_tokenizer(target)
    save_weights(target)
    for file in target.iterdir():
        file.chmod(0o644)
