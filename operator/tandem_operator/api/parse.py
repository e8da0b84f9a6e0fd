"""From an object of the API server to an `InferencePool`, or to one sentence on what is wrong."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tandem_operator.api.spelling import advice
from tandem_operator.api.stored import fields_at, places_of
from tandem_operator.api.v1alpha1 import API_VERSION, KIND
from tandem_operator.api.v1alpha1.pool import InferencePool

Steps = tuple[int | str, ...]
"""The way from an object to one of its fields: names, and places in lists."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one field, and what to write; `str` has both.

    Attributes:
        steps: the way to the field; of a rule over several fields, to the one to change.
    """

    steps: Steps
    message: str

    @property
    def path(self) -> str:
        """The way as people write it: `spec.engine.extraArgs[1]`."""
        parts = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)
        return "".join(parts).lstrip(".")

    def __str__(self) -> str:
        path = self.path
        return f"{path}: {after_field(path, self.message)}" if path else self.message


def after_field(path: str, sentence: str) -> str:
    """The sentence as it stands behind its path, without the same field's name at its beginning."""
    name, _, rest = sentence.partition(" ")
    fields = _without_items(path).split(".")
    named = _without_items(name.removesuffix(":")).split(".")
    return rest if fields[-len(named) :] == named else sentence


def _without_items(path: str) -> str:
    return re.sub(r"\[[^\]]*\]", "", path)


class InvalidPoolError(ValueError):
    """The object is no pool that Tandem can run; the text says which fields and what to write."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(map(str, faults)))


def parse_pool(obj: Mapping[str, Any], *, strict: bool = False) -> InferencePool:
    """Read a custom resource.

    Args:
        obj: the object as the API server or a YAML file has it; `status` is not looked at.
        strict: also refuse fields that this version does not know. For linting; an operator reads
            leniently, so that it can be rolled back beside objects that use newer fields.

    Raises:
        InvalidPoolError: with one sentence.
    """
    if (obj.get("apiVersion"), obj.get("kind")) != (API_VERSION, KIND):
        found = f"{obj.get('apiVersion')!r} and {obj.get('kind')!r}"
        expected = f"expected apiVersion {API_VERSION} and kind {KIND}, not {found}"
        raise InvalidPoolError(Fault((), expected))
    metadata = obj.get("metadata") or {}
    if isinstance(metadata, Mapping):
        metadata = {name: metadata[name] for name in metadata if name in _METADATA_FIELDS}
    known = {name: value for name, value in obj.items() if name not in _NOT_READ}
    known["metadata"] = metadata
    try:
        return InferencePool.model_validate(
            known, by_alias=True, by_name=False, extra="forbid" if strict else "ignore"
        )
    except ValidationError as error:
        raise InvalidPoolError(*faults(error)) from error


def faults(error: ValidationError) -> tuple[Fault, ...]:
    """What is wrong, a sentence each; of a value that may be of two types, one for both."""
    by_sentence: dict[str, Fault] = {}
    for each in error.errors():
        fault = _fault(each)
        by_sentence.setdefault(str(fault), fault)
    return tuple(by_sentence.values())


_NOT_READ = {"apiVersion", "kind", "status"}
_METADATA_FIELDS = {"name", "namespace", "uid", "generation", "deletionTimestamp"}


def _fault(error: ErrorDetails) -> Fault:
    steps = tuple(step for step in error["loc"] if step not in _UNION_BRANCHES)
    named = str(error.get("ctx", {}).get("field", "")).split(".")
    below = (int(step) if step.isdecimal() else step for step in named if step)
    return Fault((*steps, *below), _message(error, steps))


def _instead(steps: Steps) -> str:
    name = str(steps[-1])
    return advice(name, known=fields_at(steps[:-1]), places=places_of(name))


def _message(error: ErrorDetails, steps: Steps) -> str:
    """What is wrong, and what would be right, without pydantic's own words."""
    if error["type"] == "missing":
        field = str(steps[-1]) if steps else ""
        example = _EXAMPLES.get(field)
        return "this field is required" + (
            f"; write for example {field}: {example}" if example else ""
        )
    if error["type"] == "extra_forbidden":
        return f"this version of Tandem has no such field; {_instead(steps)}"
    kind = error["type"]
    if kind in ("int_type", "string_type") and error["loc"][-1] in _UNION_BRANCHES:
        kind = "quantity"
    if kind not in _PLAINLY:
        return error["msg"]
    return plainly(kind, error["input"], **error.get("ctx", {}))


def plainly(kind: str, got: Any, **bounds: Any) -> str:
    """What a value must be, by pydantic's name of the fault, and what came instead."""
    return _PLAINLY[kind].format(**bounds, got=_shown(got))


def _shown(value: Any) -> str:
    """What came, in a few characters, as YAML and JSON write it."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


_UNION_BRANCHES = {"int", "str", "constrained-int", "constrained-str"}
_PLAINLY = {
    "quantity": "must be a quantity such as 500m, 2 or 64Mi; got {got}",
    "int_type": "must be a whole number, such as 4; got {got}",
    "bool_type": "must be true or false; got {got}",
    "string_type": "must be a string, in quotes where YAML needs them; got {got}",
    "enum": "must be {expected}; got {got}",
    "literal_error": "must be {expected}; got {got}",
    "model_type": "must be an object, with fields; got {got}",
    "dict_type": "must be an object, with fields; got {got}",
    "list_type": "must be a list; got {got}",
    "tuple_type": "must be a list; got {got}",
    "greater_than_equal": "must be at least {ge}; got {got}",
    "less_than_equal": "must be at most {le}; got {got}",
    "string_too_long": "must be at most {max_length} characters; got {got}",
    "string_too_short": "must be at least {min_length} character(s); got {got}",
    "too_long": "must hold at most {max_length} entries, not {actual_length}",
}
# Of the fields that have no default, by their last step.
_EXAMPLES = {
    "name": "chat-8b",
    "spec": "{model: ..., slo: ..., prefill: ..., decode: ...}",
    "model": "{name: chat-8b, maxModelLen: 16384, source: ...}",
    "maxModelLen": "16384",
    "source": "{huggingFace: {repo: Qwen/Qwen3-8B}}",
    "repo": "Qwen/Qwen3-8B",
    "slo": "{preset: Chat}",
    "prefill": "{maxReplicas: 4}",
    "decode": "{maxReplicas: 4}",
    "maxReplicas": "4",
}
_LONGEST_SHOWN = 40
