"""Weights in object storage: how a model names them, and where vLLM puts what it reads of them."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

SCHEMES = ("s3", "gs")
"""Of what vLLM 0.32 streams by itself, those that pools may name."""


def scheme_of(model: str) -> str | None:
    """The scheme of a model in object storage; `None` of any other."""
    scheme, separator, _ = model.partition("://")
    return scheme if separator and scheme in SCHEMES else None


def streamed_config(uri: str, environment: Mapping[str, str]) -> Path:
    """The folder that vLLM 0.32 copies the model's config and tokenizer to, before it streams."""
    root = environment.get("VLLM_ASSETS_CACHE")
    if root is None:
        cache = environment.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        root = f"{cache}/vllm/assets"
    return Path(root) / "model_streamer" / hashlib.sha256(uri.encode()).hexdigest()[:8]


def folder_of(uri: str, *, into: str) -> Path:
    """The folder of a model's only copy."""
    return Path(into) / hashlib.sha256(uri.encode()).hexdigest()[:16]
