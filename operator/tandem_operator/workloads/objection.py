"""A fault in one field of a spec that its schema accepts."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# A rule for each field would make the CRD too long.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Objection:
    """A sentence that begins with the field; `str` is that sentence.

    Attributes:
        field: path below `spec`; list items by index or name: `decode.podTemplate.spec.volumes[x]`.
    """

    field: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def name_objections(name: str | None, field: str, *, example: str) -> Iterator[Objection]:
    """Yield the reasons why no object can have this name; none for a field without a value."""
    if name is not None and not _NAME.fullmatch(name):
        why = "must hold only lower-case letters, digits, '-' and '.'; write for example"
        yield Objection(field, f"{field} {why} {example}")
