"""The lines of HTTP headers."""

from collections.abc import Mapping

_ENDS_A_HEADER = frozenset("\r\n\0")


def header_lines(headers: Mapping[str, str]) -> bytes:
    """Return the lines of headers; raises `ValueError` for a line break in one of them."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if not _ENDS_A_HEADER.isdisjoint("".join(lines)):
        raise ValueError("a header must not hold a line break")
    return "".join([f"{line}\r\n" for line in lines]).encode(errors="surrogateescape")
