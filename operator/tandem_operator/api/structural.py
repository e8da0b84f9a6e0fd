"""Models -> the structural schema of a CRD, in a closed world.

Whatever the API server could not enforce, or would enforce differently from pydantic, is an error
here and not a silently weaker schema: unknown keywords, validators without CEL, text and
collections without a bound (the price of CEL rules depends on it), fields without a description.
"""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

import annotated_types
from pydantic import BaseModel, Strict
from pydantic.fields import FieldInfo

from tandem_operator.api.rules import VALIDATIONS, ApiModel, Extension, ListMap, OneForm, Rule

Schema = dict[str, Any]

_COPIED = frozenset(
    {
        "type",
        "enum",
        "format",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "required",
        VALIDATIONS,
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
    }
)
_HANDLED = frozenset(
    {"$defs", "title", "description", "default", "properties", "items", "additionalProperties"}
)
_BOUND_OF_TYPE = {"string": "maxLength", "array": "maxItems"}
_METADATA = (
    Rule,
    Extension,
    ListMap,
    OneForm,
    Strict,
    FieldInfo,
    annotated_types.BaseMetadata,
    annotated_types.GroupedMetadata,
)


def _reading_order(keyword: str) -> tuple[bool, bool, str]:
    """Words first, then what applies here, then what is inside."""
    return keyword in ("properties", "items", "additionalProperties"), keyword != "description", ""


class UnrepresentableError(TypeError):
    """A model says something that a structural schema cannot."""


def structural_schema(model: type[ApiModel]) -> Schema:
    """The `openAPIV3Schema` of one model, with every reference inlined."""
    for part in _models_below(model, set()):
        _refuse_hidden_validators(part)
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _Converter(schema.get("$defs", {})).convert(schema, where=model.__name__, trail=())


class _Converter:
    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def convert(self, schema: Schema, *, where: str, trail: tuple[str, ...]) -> Schema:
        schema, trail = self._inline(schema, where=where, trail=trail)
        if unknown := schema.keys() - _COPIED - _HANDLED - {"x-kubernetes-int-or-string", "anyOf"}:
            raise UnrepresentableError(f"{where}: no structural form for {sorted(unknown)}")
        result = {key: value for key, value in schema.items() if key in _COPIED}
        if "description" in schema:
            result["description"] = " ".join(schema["description"].split())
        if schema.get("x-kubernetes-int-or-string"):
            result |= {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
            }
        elif "anyOf" in schema or "type" not in schema:
            raise UnrepresentableError(f"{where}: needs exactly one type")
        self._children(schema, result, where=where, trail=trail)
        _refuse_unbounded(result, where)
        if schema.get("default") is not None:
            result["default"] = _default(schema["default"], result, where)
        return {key: result[key] for key in sorted(result, key=_reading_order)}

    def _children(
        self, schema: Schema, result: Schema, *, where: str, trail: tuple[str, ...]
    ) -> None:
        if "properties" in schema:
            result["properties"] = {
                name: self._property(child, where=f"{where}.{name}", trail=trail)
                for name, child in schema["properties"].items()
            }
        if "items" in schema:
            result["items"] = self.convert(schema["items"], where=f"{where}[]", trail=trail)
        values = schema.get("additionalProperties")
        if values is True:
            result["x-kubernetes-preserve-unknown-fields"] = True
        elif isinstance(values, dict):
            result["additionalProperties"] = self.convert(values, where=f"{where}{{}}", trail=trail)
        elif values is not None:
            raise UnrepresentableError(f"{where}: pruning already refuses additional properties")

    def _property(self, schema: Schema, *, where: str, trail: tuple[str, ...]) -> Schema:
        result = self.convert(schema, where=where, trail=trail)
        if "description" not in result:
            raise UnrepresentableError(f"{where}: needs a description; kubectl explain shows it")
        return result

    def _inline(
        self, schema: Schema, *, where: str, trail: tuple[str, ...]
    ) -> tuple[Schema, tuple[str, ...]]:
        """Resolve a reference or an optional; what stands beside it wins, rules add up."""
        outer = dict(schema)
        if "$ref" in outer:
            name = outer.pop("$ref").removeprefix("#/$defs/")
            if name in trail:
                raise UnrepresentableError(f"{where}: {name} contains itself")
            inner, trail = self._definitions[name], (*trail, name)
        elif "anyOf" in outer:
            branches = [one for one in outer["anyOf"] if one.get("type") != "null"]
            if len(branches) != 1:
                return _int_or_string(outer, branches, where), trail
            del outer["anyOf"]
            inner = branches[0]
        else:
            return outer, trail
        merged = inner | outer
        if rules := [*inner.get(VALIDATIONS, ()), *outer.get(VALIDATIONS, ())]:
            merged[VALIDATIONS] = rules
        return self._inline(merged, where=where, trail=trail)


def _int_or_string(outer: Schema, branches: list[Schema], where: str) -> Schema:
    if {branch.get("type") for branch in branches} != {"integer", "string"}:
        raise UnrepresentableError(f"{where}: no structural form for a choice of types")
    bounds = {k: v for branch in branches for k, v in branch.items() if k != "type"}
    rest = {key: value for key, value in outer.items() if key != "anyOf"}
    return bounds | rest | {"x-kubernetes-int-or-string": True}


def _refuse_unbounded(result: Schema, where: str) -> None:
    kind = result.get("type", "string")
    bound = _BOUND_OF_TYPE.get(kind)
    if kind == "object" and "additionalProperties" in result:
        bound = "maxProperties"
    if bound and bound not in result and "enum" not in result:
        raise UnrepresentableError(f"{where}: needs {bound}")


def _default(value: Any, result: Schema, where: str) -> Any:
    """A parent's default is `{}`: the API server then fills in the children's own."""
    if "properties" not in result:
        return value
    filled = _filled(result)
    if _without_unset(value) != filled:
        raise UnrepresentableError(f"{where}: its default differs from those of its fields")
    # The rules of an object are tried on its default before that is filled in.
    return filled if VALIDATIONS in result else {}


def _filled(schema: Schema) -> Schema:
    """What an empty object becomes."""
    return {
        name: _filled(child) if "properties" in child else child["default"]
        for name, child in schema["properties"].items()
        if "default" in child
    }


def _without_unset(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _without_unset(inner) for name, inner in value.items() if inner is not None}


def _models_below(annotation: Any, seen: set[type]) -> Iterator[type[ApiModel]]:
    if annotation in seen:
        return
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not issubclass(annotation, ApiModel):
            raise UnrepresentableError(f"{annotation.__name__} must be an ApiModel")
        seen.add(annotation)
        yield annotation
        for field in annotation.model_fields.values():
            _refuse_unknown_metadata(field.metadata, annotation.__name__)
            yield from _models_below(field.annotation, seen)
        return
    _refuse_unknown_metadata(getattr(annotation, "__metadata__", ()), str(annotation))
    for argument in get_args(annotation):
        yield from _models_below(argument, seen)


def _refuse_unknown_metadata(metadata: Any, where: str) -> None:
    for item in metadata:
        if not isinstance(item, _METADATA) and type(item).__name__ != "PydanticGeneralMetadata":
            raise UnrepresentableError(f"{where}: {item!r} would not be in the CRD; use a Rule")


def _refuse_hidden_validators(model: type[ApiModel]) -> None:
    decorators = model.__pydantic_decorators__
    hidden = {
        *decorators.validators,
        *decorators.field_validators,
        *decorators.root_validators,
        *(decorators.model_validators.keys() - {"check_rules"}),
        *decorators.field_serializers,
        *decorators.model_serializers,
        *decorators.computed_fields,
    }
    if hidden:
        raise UnrepresentableError(f"{model.__name__}: {sorted(hidden)} would not be in the CRD")
