"""Rules of the API, each said once: as CEL for the API server and as Python for everybody else.

`Rule.expression` goes into the CRD; `Rule.holds` is checked by pydantic with the same message, so
that an object which never met the CEL (an older CRD, an offline linter) gets the same sentence.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

VALIDATIONS = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One validation with the sentence a user reads when it fails.

    Put it into `Annotated[...]` for a value, or into a model's `rules` for several fields.

    Attributes:
        expression: CEL; `self` is the value.
        message: names the field and a value that would work.
        holds: the same test in Python.
        field: JSON path below the model (".maxReplicas") that the error points to.
    """

    expression: str
    message: str
    holds: Callable[[Any], bool]
    field: str | None = None

    def check(self, value: Any) -> Any:
        """Return `value`, or raise an error that carries `message`."""
        if not self.holds(value):
            raise PydanticCustomError(
                "rule", "{message}", {"message": self.message, "field": self.field or ""}
            )
        return value

    def to_crd(self) -> dict[str, str]:
        """The entry of `x-kubernetes-validations`."""
        entry = {"rule": self.expression, "message": self.message}
        return entry | ({"fieldPath": self.field} if self.field else {})

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return _with_rules(handler(schema), (self,))


@dataclass(frozen=True, slots=True, eq=False)  # hashable in spite of its mapping
class Extension:
    """Schema keywords that check nothing here, such as `format`."""

    keywords: Mapping[str, Any]

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(schema) | dict(self.keywords)


@dataclass(frozen=True, slots=True)
class ListMap:
    """A list whose items a field tells apart: an API server refuses two with the same value.

    Attributes:
        key: the field, of one word.
    """

    key: str

    def check(self, items: Sequence[BaseModel]) -> Sequence[BaseModel]:
        """Return the items, or raise an error that names the value that comes again."""
        seen = set()
        for index, item in enumerate(items):
            value = getattr(item, self.key)
            if value in seen:
                message = f"{value!r} appears twice; give each its own {self.key}"
                context = {"message": message, "field": f"{index}.{self.key}"}
                raise PydanticCustomError("rule", "{message}", context)
            seen.add(value)
        return items

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(schema) | {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [self.key],
        }


@dataclass(frozen=True, slots=True)
class OneForm:
    """Brings what was accepted into the form that is read: nothing that an API server must know."""

    of: Callable[[Any], Any]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.of, handler(source))


class ApiModel(BaseModel):
    """A part of the custom resource: camelCase outside, frozen, lenient about unknown fields.

    Lenient because a rolled-back operator must go on serving pools that use newer fields;
    `parse_pool(..., strict=True)` refuses them.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def check_rules(self) -> Self:
        """Hold the model to its own rules."""
        for rule in self.rules:
            rule.check(self)
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        json_schema = handler(schema)
        # A model's schema is a reference into $defs; the rules belong to the definition.
        _with_rules(handler.resolve_ref_schema(json_schema), cls.rules)
        return json_schema

    def to_object(self) -> dict[str, Any]:
        """The JSON object as Kubernetes has it: camelCase, nothing that is unset."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _with_rules(schema: JsonSchemaValue, rules: tuple[Rule, ...]) -> JsonSchemaValue:
    if rules:
        present = schema.get(VALIDATIONS, [])
        schema[VALIDATIONS] = [*present, *(rule.to_crd() for rule in rules)]
    return schema
