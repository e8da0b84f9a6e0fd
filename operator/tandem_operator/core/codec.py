"""Frozen dataclasses to plain JSON values and back, unrounded, driven by their type hints."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from math import inf, isfinite
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


class CodecError(ValueError):
    """A stored value does not have the shape that its type asks for."""


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def encode(value: Any) -> Any:
    """A JSON value that `decode` turns back into an equal one."""
    if is_dataclass(value):
        return {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return value


def decode(kind: Any, raw: Any) -> Any:
    """The value of type `kind` that `raw` stands for; missing fields take their defaults.

    Raises:
        CodecError: `raw` has another shape, or holds a number that is not finite.
    """
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _decode_union(kind, raw)
    if origin is tuple:
        return _decode_tuple(kind, raw)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key_kind, item_kind = get_args(kind)
        entries = _expect(raw, dict, kind)
        return {decode(key_kind, key): decode(item_kind, item) for key, item in entries.items()}
    if is_dataclass(kind):
        return _decode_dataclass(kind, raw)
    return _decode_plain(kind, raw)


def _decode_plain(kind: Any, raw: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(raw)
        except ValueError as error:
            raise CodecError(f"expected one of {kind.__name__}, got {raw!r}") from error
    if kind is float and isinstance(raw, int | float) and not isinstance(raw, bool):
        return _finite(raw)
    return _expect(raw, kind, kind)


def _finite(raw: float) -> float:
    try:
        number = float(raw)
    except OverflowError:
        number = inf
    if not isfinite(number):
        raise CodecError(f"expected a finite number, got {raw!r:.40}")
    return number


def _decode_union(kind: Any, raw: Any) -> Any:
    options = [option for option in get_args(kind) if option is not NoneType]
    if raw is None and len(options) < len(get_args(kind)):
        return None
    return decode(options[0], raw)


def _decode_tuple(kind: Any, raw: Any) -> tuple[Any, ...]:
    items = _expect(raw, list, kind)
    kinds = get_args(kind)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(decode(kinds[0], item) for item in items)
    if len(kinds) != len(items):
        raise CodecError(f"expected {len(kinds)} items for {kind}, got {len(items)}")
    return tuple(decode(each, item) for each, item in zip(kinds, items, strict=True))


def _decode_dataclass(kind: Any, raw: Any) -> Any:
    entries = _expect(raw, dict, kind)
    hints = _hints(kind)
    known = {f.name for f in fields(kind)}
    try:
        return kind(**{k: decode(hints[k], v) for k, v in entries.items() if k in known})
    except TypeError as error:
        raise CodecError(f"{kind.__name__}: {error}") from error


def _expect(raw: Any, kind: Any, wanted: Any) -> Any:
    if not isinstance(raw, kind) or (isinstance(raw, bool) and kind is not bool):
        raise CodecError(f"expected {getattr(wanted, '__name__', wanted)}, got {raw!r:.40}")
    return raw
