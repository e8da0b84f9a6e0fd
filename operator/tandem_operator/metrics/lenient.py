"""What pods of another release answer: newer ones may say more than this operator reads."""

from pydantic import BaseModel, ConfigDict


class Lenient(BaseModel):
    """A part of an answer; fields that it does not name are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)
