"""Prompts that begin alike and end differently, and what one cache would find of them."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.load.plan import FIRST_PLAIN_TOKEN_ID, Lengths
from tandem_operator.sim.engines.prefill_pod import PrefixCache

BLOCK_TOKENS = 32
ENDLESS_BLOCKS = 10**9
VOCABULARY = 1024
END_TOKENS = Lengths(20, 200)

Prompt = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of all prompts.

    Attributes:
        each: requests of each prefix in one pass; a pass has them in random order.
    """

    prefixes: int = 40
    prefix_tokens: int = 1500
    each: int = 2
    passes: int = 5


def passes_of(shape: Shape, *, seed: int) -> list[list[Prompt]]:
    """Return the prompts of each pass; equal seeds give equal prompts."""
    draw = random.Random(seed)

    def words(count: int) -> Prompt:
        return tuple(draw.choices(range(FIRST_PLAIN_TOKEN_ID, VOCABULARY), k=count))

    prefixes = [words(shape.prefix_tokens) for _ in range(shape.prefixes)]
    found = []
    for _ in range(shape.passes):
        order = shape.each * prefixes
        draw.shuffle(order)
        found.append([prefix + words(END_TOKENS.draw(draw)) for prefix in order])
    return found


def in_one_cache(passes: Iterable[Sequence[Prompt]], *, blocks: int = ENDLESS_BLOCKS) -> list[int]:
    """Return the tokens that one cache finds of each pass, if it has each prompt at once.

    As in vLLM, it holds whole blocks, and the last token of a prompt is always computed.
    """
    cache, numbers = PrefixCache(blocks=blocks), dict[tuple[int, Prompt], int]()
    found = []
    for prompts in passes:
        hits = 0
        for prompt in prompts:
            held, before = [], -1
            for end in range(BLOCK_TOKENS, len(prompt) + 1, BLOCK_TOKENS):
                block = before, prompt[end - BLOCK_TOKENS : end]
                before = numbers.setdefault(block, len(numbers))
                held.append(before)
            most = (len(prompt) - 1) // BLOCK_TOKENS
            hits += BLOCK_TOKENS * min(most, cache.hits(tuple(held)))
            cache.keep(tuple(held))
        found.append(hits)
    return found
