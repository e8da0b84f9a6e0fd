"""The pool's fields for the launcher's options, because a pool's author wrote only fields. Pure."""

import re
from collections.abc import Callable

from tandem_engine.serve.engine_settings import EngineSettings
from tandem_engine.serve.object_storage import scheme_of

Worded = Callable[[str], str]

VOLUME = "/mnt/model"
"""The mount point of a claim that holds the weights."""
IMAGE = "/mnt/image"
"""The mount point of an image that holds the weights."""

_FIELDS = {
    "required-cache": "spec.model.cache.hostPath",
    "model-revision": "spec.model.source.huggingFace.revision",
    "served-model-name": "spec.model.name",
    "max-model-len": "spec.model.maxModelLen",
    "device": "spec.engine.device",
    "dtype": "spec.engine.dtype",
    "quantization": "spec.engine.quantization",
    "block-size": "spec.engine.blockSize",
    "prefix-caching": "spec.engine.prefixCaching",
    "no-prefix-caching": "spec.engine.prefixCaching",
    "max-num-seqs": "spec.engine.maxNumSeqs",
    "kv-cache-memory-bytes": "spec.engine.kvCacheMemory",
    "extra-arg": "spec.engine.extraArgs",
}
# The text after `--extra-arg: ` is an option in its author's words.
_OPTION = re.compile(
    r"(?P<theirs>--extra-arg: (?P<quoted>\S+))"
    r"|(?<![\w-])--(?P<ours>[a-z][a-z-]*[a-z])(=(?P<value>[\w.]+))?"
)


def as_given(sentence: str) -> str:
    """Return the sentence unchanged, for a person who wrote the command line."""
    return sentence


def in_pool_fields(settings: EngineSettings) -> Worded:
    """Return a function that replaces options by the pool's fields behind these settings."""
    own = {
        option: f"spec.{settings.role}.engine.{name}"
        for option, field in _FIELDS.items()
        if (name := field.removeprefix("spec.engine.")) in settings.own_field
    }
    fields = (
        _FIELDS
        | own
        | {
            "model": _source(settings.model),
            "tensor-parallel-size": f"spec.{settings.role}.gpusPerReplica",
        }
    )

    def field(found: re.Match[str]) -> str:
        if found["theirs"] is not None:
            return f"{fields['extra-arg']}: {found['quoted']}"
        name = fields.get(found["ours"])
        if name is None:
            return found[0]
        return name if found["value"] is None else f"{name}: {found['value']}"

    return lambda sentence: _OPTION.sub(field, sentence)


def _source(model: str) -> str:
    if scheme_of(model) is not None or model == IMAGE:
        return "spec.model.source.uri"
    if not model.startswith("/"):
        return "spec.model.source.huggingFace.repo"
    claimed = model == VOLUME or model.startswith(f"{VOLUME}/")
    return f"spec.model.source.{'persistentVolumeClaim' if claimed else 'image'}.path"
