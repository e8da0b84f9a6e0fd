"""Messages between routers of a pool about requests that end engines: a small closed document.

Times are sent as ages, because the clocks of two routers differ.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

REFUSED_S = 300.0
"""Time for which a request that ended two engines is refused; older ends do not count."""
MOST_IN_A_NOTICE = 512
MOST_BYTES = 256 * 1024
"""Room for all entries, however long the names of their pods are."""
POD_NAME = r"^[A-Za-z0-9.-]{1,253}$"


class NoticeError(ValueError):
    """A document that is not a valid notice; none of it is used."""


@dataclass(frozen=True, slots=True)
class End:
    """An engine ended with a request."""

    digest: bytes
    pod: str
    age_s: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A request was answered after engines had ended with it."""

    digest: bytes
    age_s: float


@dataclass(frozen=True, slots=True)
class Notice:
    """The message of one router to others."""

    ends: tuple[End, ...] = ()
    answers: tuple[Answer, ...] = ()

    @property
    def digests(self) -> frozenset[bytes]:
        """Return the digests in it."""
        ended = frozenset(end.digest for end in self.ends)
        return ended | {answer.digest for answer in self.answers}

    def document(self) -> bytes:
        """Return the notice as JSON."""
        ends = [
            {"digest": end.digest.hex(), "pod": end.pod, "age_s": _rounded(end.age_s)}
            for end in self.ends
        ]
        answers = [
            {"digest": answer.digest.hex(), "age_s": _rounded(answer.age_s)}
            for answer in self.answers
        ]
        return json.dumps({"schema": 1, "ends": ends, "answers": answers}).encode()


def _rounded(age_s: float) -> float:
    return round(min(REFUSED_S, max(0.0, age_s)), 3)


_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
_Age = Annotated[float, Field(ge=0, le=REFUSED_S, allow_inf_nan=False)]


class MessagePart(BaseModel):
    """A part of a message: nothing in it is unknown or of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _End(MessagePart):
    digest: _Digest
    pod: Annotated[str, Field(pattern=POD_NAME)]
    age_s: _Age


class _Answer(MessagePart):
    digest: _Digest
    age_s: _Age


class _Document(MessagePart):
    schema_version: Literal[1] = Field(alias="schema")
    ends: Annotated[list[_End], Field(max_length=MOST_IN_A_NOTICE)] = Field(default_factory=list)
    answers: Annotated[list[_Answer], Field(max_length=MOST_IN_A_NOTICE)] = Field(
        default_factory=list
    )


def parse_notice(raw: bytes) -> Notice:
    """Return the notice in `raw`, or raise `NoticeError` with one sentence."""
    try:
        document = _Document.model_validate_json(raw)
    except ValidationError as error:
        raise not_valid(error) from error
    return Notice(tuple(_ends(document)), tuple(_answers(document)))


def not_valid(error: ValidationError) -> NoticeError:
    """Return the first fault of a message as one sentence, without its content."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "the document"
    return NoticeError(f"{field}: {first['msg']}")


def _ends(document: _Document) -> Iterator[End]:
    for each in document.ends:
        yield End(bytes.fromhex(each.digest), each.pod, each.age_s)


def _answers(document: _Document) -> Iterator[Answer]:
    for each in document.answers:
        yield Answer(bytes.fromhex(each.digest), each.age_s)
