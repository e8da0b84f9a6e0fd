"""From a name that no field has to the field that was meant."""

import difflib
from collections.abc import Collection, Iterable

_LIKE_ENOUGH = 0.75
"""Ratio of `difflib`: one letter off in a word of four is more, another word is less."""
_MOST_PLACES = 3


def advice(name: str, *, known: Collection[str], places: Iterable[str] = ()) -> str:
    """What to write instead of a name.

    Args:
        name: which no field has.
        known: the names of the fields that could stand there.
        places: where else a field has exactly this name.
    """
    near = nearest(name, known)
    if near is not None:
        return f"did you mean {near}?"
    found = list(places)
    if 0 < len(found) <= _MOST_PLACES:
        return f"write it in {' or '.join(found)}"
    return "check its spelling or remove it"


def nearest(name: str, known: Collection[str]) -> str | None:
    """The one of `known` that was meant, if one is near enough."""
    by_letters = {_letters(each): each for each in known}
    exact = by_letters.get(_letters(name))
    if exact is not None:
        return exact
    near = difflib.get_close_matches(_letters(name), by_letters, n=1, cutoff=_LIKE_ENOUGH)
    return by_letters[near[0]] if near else None


def _letters(name: str) -> str:
    """`min_replicas`, `MinReplicas` and `minReplicas` are one name to people."""
    return name.replace("_", "").replace("-", "").lower()
