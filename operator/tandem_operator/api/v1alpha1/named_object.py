"""A reference by name; the field that holds it gives the kind."""

from typing import Annotated

from pydantic import Field

from tandem_operator.api.rules import ApiModel


class NamedObject(ApiModel):
    """An object of the pool's namespace."""

    name: Annotated[str, Field(max_length=253)]
    """Name of the object."""
