"""How the documents are made that parts write for each other."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A part of a document.

    A newer writer may say more than a reader knows, so unknown fields are passed over.
    """

    model_config = ConfigDict(
        extra="ignore", frozen=True, validate_by_name=True, use_attribute_docstrings=True
    )
