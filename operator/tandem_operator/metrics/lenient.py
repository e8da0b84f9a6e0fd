"""JSON of pods and servers that others made: newer ones may say more than this operator reads.

A megabyte of empty lists takes seventy megabytes to parse. So what an answer is made of is counted
before, without looking into it.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

MOST_CONTAINERS, MOST_VALUES = 16_000, 120_000
_LONGEST_PROBLEM = 200


class Lenient(BaseModel):
    """A part of an answer; fields that it does not name are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def parse_bounded(kind: TypeAdapter[Any], raw: bytes) -> Any:
    """The answer; raises `ValueError` with one short sentence, whatever stood in it."""
    if raw.count(b"[") + raw.count(b"{") > MOST_CONTAINERS or raw.count(b",") > MOST_VALUES:
        raise ValueError("the answer has too many parts")
    try:
        return kind.validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        raise ValueError(f"{where}: {first['msg']}"[:_LONGEST_PROBLEM]) from None
