"""Put what vLLM knows of a model class into its cache; else each pod imports vLLM twice for it.

VLLM_CACHE_ROOT=FOLDER python3 inspect_model.py ARCHITECTURE
"""

import os
import sys
from pathlib import Path

from vllm.model_executor.models.registry import ModelRegistry

if __name__ == "__main__":
    ModelRegistry.models[sys.argv[1]].inspect_model_cls()
    folder = Path(os.environ["VLLM_CACHE_ROOT"])
    if not list(folder.glob("modelinfos/*.json")):
        sys.exit(f"vLLM left nothing in {folder}")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
