"""From an object of the API server to an `InferencePool`, or to one sentence on what is wrong."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tandem_operator.api.v1alpha1 import API_VERSION, KIND
from tandem_operator.api.v1alpha1.pool import InferencePool


class InvalidPoolError(ValueError):
    """The object is no pool that Tandem can run; the text says which field and what to write."""


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
        raise InvalidPoolError(
            f"expected apiVersion {API_VERSION} and kind {KIND},"
            f" not {obj.get('apiVersion')!r} and {obj.get('kind')!r}"
        )
    known = {
        "metadata": {
            alias: value
            for alias, value in (obj.get("metadata") or {}).items()
            if alias in _METADATA_FIELDS
        },
        "spec": obj.get("spec"),
    }
    try:
        return InferencePool.model_validate(
            known, by_alias=True, by_name=False, extra="forbid" if strict else "ignore"
        )
    except ValidationError as error:
        raise InvalidPoolError("; ".join(sentences(error))) from error


def sentences(error: ValidationError) -> list[str]:
    """One sentence for each thing that is wrong, in the order of `error.errors()`."""
    return [_sentence(each) for each in error.errors()]


_METADATA_FIELDS = {"name", "namespace", "uid", "generation", "deletionTimestamp"}


def _sentence(error: ErrorDetails) -> str:
    steps = [step for step in error["loc"] if step not in _UNION_BRANCHES]
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    path = (path + error.get("ctx", {}).get("field", "")).lstrip(".")
    message = _PLAINLY.get(error["type"], error["msg"])
    return f"{path}: {message}" if path else message


_UNION_BRANCHES = {"int", "str", "constrained-int", "constrained-str"}
_PLAINLY = {
    "extra_forbidden": "this version of Tandem has no such field; check its spelling or remove it",
    "missing": "this field is required",
}
