"""Weights in object storage: their URIs, and the folders of vLLM's copies."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

SCHEMES = ("s3", "gs")
"""Schemes that vLLM 0.32 streams by itself and that pools may name."""


def scheme_of(model: str) -> str | None:
    """Return the scheme of a model in object storage; `None` of any other model."""
    scheme, separator, _ = model.partition("://")
    return scheme if separator and scheme in SCHEMES else None


def streamed_config(uri: str, environment: Mapping[str, str]) -> Path:
    """Return the folder to which vLLM 0.32 copies config and tokenizer before it streams."""
    root = environment.get("VLLM_ASSETS_CACHE")
    if root is None:
        cache = environment.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        root = f"{cache}/vllm/assets"
    return Path(root) / "model_streamer" / hashlib.sha256(uri.encode()).hexdigest()[:8]


def folder_of(uri: str, *, into: str) -> Path:
    """Return the folder of a model's only copy."""
    return Path(into) / hashlib.sha256(uri.encode()).hexdigest()[:16]
