"""The engine of these tests: it serves the demo model, and is as small as it can be."""

import random
from typing import Any

SMALL = (
    "--served-model-name=tiny",
    "--dtype=float32",
    "--block-size=32",
    "--max-model-len=2048",
    "--max-num-seqs=16",
    "--cpu-threads=1",
    "--kv-lease-s=12",
)


def body_of(length: int, **more: Any) -> dict[str, Any]:
    draw = random.Random(length)
    return {
        "model": "tiny",
        "prompt": [draw.randrange(300, 1000) for _ in range(length)],
        "max_tokens": 24,
        "temperature": 0,
        "return_token_ids": True,
        **more,
    }
