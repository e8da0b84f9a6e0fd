"""The base of all documents that parts of Tandem exchange."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError


class Part(BaseModel):
    """A part of a document.

    A newer writer may send fields that a reader does not know. The reader ignores them.
    """

    model_config = ConfigDict(
        extra="ignore", frozen=True, validate_by_name=True, use_attribute_docstrings=True
    )


_P = TypeVar("_P", bound=Part)


def part_of(kind: type[_P], value: object) -> _P | None:
    """Return the valid part in `value`, or `None`: one invalid part affects no other part."""
    try:
        return kind.model_validate(value)
    except ValidationError:
        return None
