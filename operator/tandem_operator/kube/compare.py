"""The comparison of a live object with the object to apply. Pure; in doubt, it is applied again."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

HASH_ANNOTATION = "tandem-inference.io/applied-hash"

Path = tuple[str, ...]

_MERGE_KEYS = (
    "mountPath",
    "containerPort",
    "port",
    "name",
    "key",
    "topologyKey",
    "type",
    "uid",
)
_QUANTITY_PARENTS = frozenset({"limits", "requests", "hard", "capacity"})
_QUANTITY = re.compile(r"^([+-]?[0-9.]+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]+)?$")
_DECIMAL_POWERS = {"m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_POWERS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def with_hash(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body with a hash of itself, so that a field no longer applied is noticed."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
    metadata = body["metadata"]
    annotations = {**(metadata.get("annotations") or {}), HASH_ANNOTATION: digest}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def differences(desired: Any, observed: Any, at: Path = ()) -> Iterator[Path]:
    """Yield paths whose value in `observed` differs from `desired`; extra fields do not count."""
    if isinstance(desired, Mapping):
        if not desired and observed is None:
            return
        if not isinstance(observed, Mapping):
            yield at
            return
        for key, value in desired.items():
            yield from differences(value, observed.get(key), (*at, str(key)))
    elif isinstance(desired, list):
        yield from _list_differences(desired, observed, at)
    elif desired != observed and not _same_quantity(desired, observed, at):
        yield at


def _list_differences(desired: list[Any], observed: Any, at: Path) -> Iterator[Path]:
    if not desired and observed is None:
        return
    if not isinstance(observed, list):
        yield at
        return
    key = _merge_key(desired)
    if key is not None:
        by_key = {item.get(key): item for item in observed if isinstance(item, Mapping)}
        for item in desired:
            yield from differences(item, by_key.get(item[key]), (*at, str(item[key])))
    elif len(desired) != len(observed):
        yield at
    else:
        for index, (one, other) in enumerate(zip(desired, observed, strict=True)):
            yield from differences(one, other, (*at, str(index)))


def _merge_key(items: Sequence[Any]) -> str | None:
    """Return the field that distinguishes the items, as the API server merges them."""
    if not all(isinstance(item, Mapping) for item in items):
        return None
    for key in _MERGE_KEYS:
        values = [item.get(key) for item in items]
        usable = all(isinstance(value, str | int) for value in values)
        if usable and len(set(values)) == len(values):
            return key
    return None


def _same_quantity(desired: Any, observed: Any, at: Path) -> bool:
    if not (at and at[-1] == "sizeLimit") and not (len(at) > 1 and at[-2] in _QUANTITY_PARENTS):
        return False
    one, other = _quantity(desired), _quantity(observed)
    return one is not None and one == other


def _quantity(value: Any) -> Decimal | None:
    match = _QUANTITY.match(str(value))
    if match is None:
        return None
    number, suffix = Decimal(match[1]), match[2] or ""
    if suffix in _DECIMAL_POWERS:
        return number.scaleb(_DECIMAL_POWERS[suffix])
    if suffix in _BINARY_POWERS:
        return number * (1 << _BINARY_POWERS[suffix])
    return Decimal(match[1] + suffix)
