"""What is wrong with one field of a spec that its schema lets by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Objection:
    """A sentence that begins with the field; `str` is that sentence.

    Attributes:
        field: below `spec`, items of lists by place or name: `decode.podTemplate.spec.volumes[x]`.
    """

    field: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence
