"""The cost to parse a JSON text, estimated before it is parsed.

A few megabytes of empty lists become hundreds of megabytes of objects. Every step here runs at the
speed of C. It counts exactly or too high, so an accepted text is within the limits.
"""

from array import array
from itertools import accumulate

from tandem_engine.router.openai.errors import ApiError

MOST_DEPTH = 128

_SIGNS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def check_shape(raw: bytes, *, most_elements: int) -> None:
    """Raise `ApiError` if `raw` has too many values, or nests them too deeply."""
    opened = raw.count(b"[") + raw.count(b"{")
    values = opened + raw.count(b",")
    if opened <= MOST_DEPTH and values <= most_elements:
        return
    # Texts have brackets and commas as well. A string that is worth its quotes is a value or a key.
    if raw.count(b'"') - raw.count(b'\\"') > 4 * most_elements:
        raise _too_many(most_elements)
    outside = _outside_strings(raw)
    opened = outside.count(b"[") + outside.count(b"{")
    if opened + outside.count(b",") > most_elements:
        raise _too_many(most_elements)
    if opened > MOST_DEPTH and _depth(outside) > MOST_DEPTH:
        raise ApiError(
            400,
            f"The body is nested too deeply; at most {MOST_DEPTH} levels are allowed.",
            code="invalid_json",
        )


def _outside_strings(raw: bytes) -> bytes:
    """Return the text outside of strings."""
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(raw.split(b'"')[::2])


def _depth(outside: bytes) -> int:
    signs = outside.translate(_SIGNS, _NO_BRACKETS)
    return max(accumulate(array("b", signs)), default=0)


def _too_many(most: int) -> ApiError:
    return ApiError(
        413,
        f"The body has more than {most} values in lists and objects; send fewer.",
        code="body_too_complex",
    )
