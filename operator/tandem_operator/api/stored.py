"""A manifest as the API server would store it, and the fields that it could have had."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tandem_operator.api.structural import Schema, structural_schema
from tandem_operator.api.v1alpha1.pool import PoolSpec


def without_nulls(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The object without the fields that are null: the API server takes them for left out.

    Those below a pod template's `spec` stay, since they take a default away.
    """
    dropped: dict[str, Any] = _without_nulls(obj, _root())
    return dropped


def fields_at(steps: Sequence[int | str]) -> tuple[str, ...]:
    """The names that the object at the end of `steps` may have."""
    schema = _root()
    for step in steps:
        schema = _inner(schema, step)
    return tuple(schema.get("properties", ()))


def places_of(name: str) -> Sequence[str]:
    """The objects that have a field of this name, as paths."""
    return _places().get(name, ())


@functools.cache
def _places() -> Mapping[str, Sequence[str]]:
    places: dict[str, list[str]] = {}
    for name, path in _fields_below(_root(), ""):
        places.setdefault(name, []).append(path)
    return places


@functools.cache
def _root() -> Schema:
    # `metadata` and `status` have rules of their own, which are not the pool's.
    beside: Schema = {name: {} for name in ("apiVersion", "kind", "metadata", "status")}
    return {"properties": {**beside, "spec": structural_schema(PoolSpec)}}


def _inner(schema: Schema, step: int | str) -> Schema:
    if isinstance(step, int):
        found: Schema = schema.get("items", {})
        return found
    return schema.get("properties", {}).get(step) or schema.get("additionalProperties") or {}


def _without_nulls(value: Any, schema: Schema) -> Any:
    if not schema:
        return value
    if isinstance(value, Mapping):
        fields = schema.get("properties", {})
        return {
            name: _without_nulls(inner, _inner(schema, name))
            for name, inner in value.items()
            if inner is not None or name not in fields
        }
    if isinstance(value, list):
        return [_without_nulls(item, schema.get("items", {})) for item in value]
    return value


def _fields_below(schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    """Names of fields, each with the object that has it; not those of the manifest itself."""
    for field, inner in schema.get("properties", {}).items():
        if path:
            yield field, path
        yield from _fields_below(inner, f"{path}.{field}".lstrip("."))
    if "items" in schema:
        yield from _fields_below(schema["items"], f"{path}[]")
