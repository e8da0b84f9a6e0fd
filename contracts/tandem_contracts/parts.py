"""How the documents are made that parts write for each other."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError


class Part(BaseModel):
    """A part of a document.

    A newer writer may say more than a reader knows, so unknown fields are passed over.
    """

    model_config = ConfigDict(
        extra="ignore", frozen=True, validate_by_name=True, use_attribute_docstrings=True
    )


_P = TypeVar("_P", bound=Part)


def part_of(kind: type[_P], value: object) -> _P | None:
    """The part that a value is, or `None` if it is none: one bad part costs no other."""
    try:
        return kind.model_validate(value)
    except ValidationError:
        return None
