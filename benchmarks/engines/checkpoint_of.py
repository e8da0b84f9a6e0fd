"""Random weights in the shape of a model, made by the engine's own interpreter."""

import json
import subprocess
from pathlib import Path

from benchmarks.priors.models import MODELS, Model

# Small enough for a processor without a GPU, to try the benchmark itself.
SHAPES = {
    "llama-3.1-8b": MODELS["llama-3.1-8b"],
    "tiny": Model(4, 128, 4, 2, 384, 1024, head_dim=32),
}
SCRIPT = Path(__file__).with_name("checkpoint.py")


def make(model: str, folder: Path, *, python: str) -> None:
    """Write the checkpoint, unless the folder has one."""
    if (folder / "config.json").is_file():
        return
    shape = json.dumps(SHAPES[model].config())
    subprocess.run([python, str(SCRIPT), str(folder), shape], check=True)
