"""JSON from pods and servers: newer versions may send more than this operator reads.

A megabyte of empty lists takes seventy megabytes to parse. So the parts of an answer are counted
first, without parsing it.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

MOST_CONTAINERS, MOST_VALUES = 16_000, 120_000
_LONGEST_PROBLEM = 200


class Lenient(BaseModel):
    """A part of an answer; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def parse_bounded(kind: TypeAdapter[Any], raw: bytes) -> Any:
    """Return the answer; raises `ValueError` with one short sentence for any invalid one."""
    if raw.count(b"[") + raw.count(b"{") > MOST_CONTAINERS or raw.count(b",") > MOST_VALUES:
        raise ValueError("the answer has too many parts")
    try:
        return kind.validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        raise ValueError(f"{where}: {first['msg']}"[:_LONGEST_PROBLEM]) from None
