"""The converter emits what Kubernetes takes, and refuses the rest instead of weakening it."""

from typing import Annotated, Any, ClassVar

import pytest
from pydantic import AfterValidator, Field, ValidationError, computed_field, field_validator

from tandem_operator.api.rules import VALIDATIONS, ApiModel, ListMap, Rule
from tandem_operator.api.structural import UnrepresentableError, structural_schema

Word = Annotated[str, Field(max_length=8)]


class Inner(ApiModel):
    """Something inside."""

    size: int = 3
    """How big."""


def test_inlines_models_and_gives_parents_an_empty_default() -> None:
    class Outer(ApiModel):
        inner: Inner = Inner()
        """What is inside."""

    schema = structural_schema(Outer)["properties"]["inner"]

    assert schema == {
        "description": "What is inside.",
        "type": "object",
        "default": {},
        "properties": {"size": {"description": "How big.", "type": "integer", "default": 3}},
    }


def test_gives_a_parent_with_rules_its_whole_default() -> None:
    class Ruled(Inner):
        rules: ClassVar = (
            Rule(expression="self.size > 0", message="size", holds=lambda it: it.size > 0),
        )

    class Outer(ApiModel):
        ruled: Ruled = Ruled()
        """Has rules."""

    assert structural_schema(Outer)["properties"]["ruled"]["default"] == {"size": 3}


def test_optional_is_neither_required_nor_nullable_nor_defaulted() -> None:
    class Outer(ApiModel):
        maybe: Word | None = None
        """Perhaps."""

    assert structural_schema(Outer)["properties"]["maybe"] == {
        "description": "Perhaps.",
        "type": "string",
        "maxLength": 8,
    }
    assert "required" not in structural_schema(Outer)


def test_rule_of_a_value_lands_beside_it() -> None:
    class Outer(ApiModel):
        even: Annotated[
            int,
            Rule(expression="self % 2 == 0", message="even", holds=lambda it: it % 2 == 0),
        ]
        """An even number."""

    schema = structural_schema(Outer)["properties"]["even"]

    assert schema[VALIDATIONS] == [{"rule": "self % 2 == 0", "message": "even"}]


def test_a_list_of_keys_says_so_and_refuses_a_key_that_comes_again() -> None:
    class Outer(ApiModel):
        items: Annotated[list[Inner], Field(max_length=8), ListMap("size")]
        """No two of one size."""

    schema = structural_schema(Outer)["properties"]["items"]

    assert schema["x-kubernetes-list-type"] == "map"
    assert schema["x-kubernetes-list-map-keys"] == ["size"]
    with pytest.raises(ValidationError, match="3 appears twice; give each its own size"):
        Outer(items=[Inner(size=3), Inner(size=4), Inner()])


def _validated(value: int) -> int:
    return value


class HiddenAfterValidator(ApiModel):
    field: Annotated[int, AfterValidator(_validated)]
    """A field."""


class HiddenFieldValidator(ApiModel):
    field: int
    """A field."""

    @field_validator("field")
    @classmethod
    def check(cls, value: int) -> int:
        return value


class Computed(ApiModel):
    field: int
    """A field."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return 2 * self.field


class UnboundedText(ApiModel):
    field: str
    """A field."""


class UnboundedList(ApiModel):
    field: list[int]
    """A field."""


class UnboundedMap(ApiModel):
    field: dict[str, int]
    """A field."""


class Choice(ApiModel):
    field: bool | Word
    """A field."""


class Anything(ApiModel):
    field: Any
    """A field."""


class Pattern(ApiModel):
    field: Annotated[str, Field(max_length=8, pattern="^a$")]
    """A field."""


class Multiple(ApiModel):
    field: Annotated[int, Field(multiple_of=2)]
    """A field."""


class Undescribed(ApiModel):
    field: int


class Recursive(ApiModel):
    field: "Recursive | None" = None
    """A field."""


class UniqueItems(ApiModel):
    field: Annotated[set[int], Field(max_length=3)]
    """A field."""


class OddDefault(ApiModel):
    field: Inner = Inner(size=4)
    """A field."""


@pytest.mark.parametrize(
    "model",
    [
        HiddenAfterValidator,
        HiddenFieldValidator,
        Computed,
        UnboundedText,
        UnboundedList,
        UnboundedMap,
        Choice,
        Anything,
        Pattern,
        Multiple,
        Undescribed,
        Recursive,
        UniqueItems,
        OddDefault,
    ],
)
def test_refuses_what_the_api_server_could_not_enforce(model: type[ApiModel]) -> None:
    with pytest.raises(UnrepresentableError):
        structural_schema(model)
