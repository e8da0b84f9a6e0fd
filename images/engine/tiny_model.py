"""Write the demo model: a random Llama of a few MB with a tokenizer and chat template of its own.

Nothing in it was trained on or copied from anything, so it carries no licence. Equal seeds give equal files,
and its answers, although without meaning, are equal word for word wherever it runs in float32.

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

WORDS = """
a able about above accept account across act active add after again against age air all almost alone along
already also always among amount and animal another answer any appear area arm around arrive art as ask at
autumn average away balance bank base basket be beach bear beautiful because become bed before begin behind
believe below beside best better between beyond big bird black blue board boat body book border both bottle
bottom box branch bread break bridge bright bring broad brother brown build building burn busy but buy by cache
call can capital car card care carry case catch cause cell centre certain chair chance change character cheap
child choice circle city claim class clean clear climb clock close cloth cloud cluster coast coat cold collect
colour come common compare complete computer connect consider control cook cool copper copy corner cost could
count country course cover cow create cross cry cup current curve cut damage dance danger dark daughter day
dead deal decide decode deep degree demand depend desert design desk detail develop different dinner direct
discuss distance do doctor door down draw dream dress drink drive drop dry during dust each early earth east
easy eat edge effect egg eight electric empty end engine enough enter equal even evening event ever every
exact example except exercise expect experience eye face fact fall family far farm fast father fear feed feel
few field fight figure fill final find fine finger finish fire first fish five flat floor flow flower fly
follow food foot for force forest forget form forward four free fresh friend from front fruit full garden
gather general gentle get give glass go goal gold good grain grass great green grey ground group grow guide
half hand hang happen happy hard have he head healthy hear heart heat heavy height help here hide high hill
history hold hole home hope horse hospital hot hour house how human hundred hunt hurry ice idea if important
in inside interest iron island it job join judge jump just keep key kind kitchen know lake land language large
last late laugh law layer lead learn leave left length less letter level library lift light like limit line
list listen little live load long look lose loud low machine make many map mark market matter may mean measure
meet memory metal middle might milk mind minute mirror miss model moment money month moon more morning most
mother mountain mouth move much music must name narrow nation nature near need never new next night nine node
noise north note nothing now number ocean of off often oil old on once one only open operator or orange order
other our out over own page paint pair paper parent part pass past path pattern pay peace people perhaps
person picture piece place plain plan plant play please point pool poor position possible power prefill
present price print problem produce protect prove public pull push quality question queue quick quiet quite
rain raise reach read ready real reason receive record red remember repeat replica request rest rich ride
right ring rise river road rock roof room root round router rule run safe sail salt same sand save scale
school science sea season second see seed sell send sentence serve set seven shadow shape share sharp she ship
shoe shop short should show side silver simple since sing single sister sit six size skin sky sleep slow small
smell smile smoke smooth snow so soft some song soon sound south space speak special spend spring square stand
star start station stay steel step still stone stop store storm story straight strange stream street strong
student study such sudden sugar summer sun support sure surface sweet swim system table take talk tall taste
teach team tell ten test than thank that the then there thick thin thing think this thousand three through
time to today together token tomorrow tool top total touch town trade train travel tree true trust try turn
twelve two under unit until up use valley value very village voice wait walk wall want war warm wash watch
water wave way we weather week weight well west wet what wheel when where which while white who whole why wide
wife wild will win wind window winter wire wise with woman wonder wood word work world would write wrong year
yellow yes yesterday yet you young zero
""".split()

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
    """Draw the weights; the special tokens' output rows stay zero, so answers run to their limit."""
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
