"""Fields as the API server names them in a conflict, and objects without some of them. Pure."""

import json
import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

# An item of a list: [port=80,protocol="TCP"] by its keys, [="a"] by its value in a set.
_ITEM = re.compile(r'\[((?:[^\]"]|"(?:[^"\\]|\\.)*")*)\]')
_KEY_VALUE = re.compile(r'([A-Za-z]+)=("(?:[^"\\]|\\.)*"|[^,"]+)')


def without(body: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any] | None:
    """Return a copy of the body without these fields; `None` if it lacks one of them."""
    copy = deepcopy(dict(body))
    return copy if all(_remove(copy, f".{path}") for path in paths) else None


def _remove(node: Any, path: str) -> bool:
    """Remove the field at `path` from `node`, in place; return whether it was there."""
    if isinstance(node, dict):
        return _remove_from_mapping(node, path)
    return isinstance(node, list) and _remove_from_list(node, path)


def _remove_from_mapping(node: dict[str, Any], path: str) -> bool:
    # A key may contain dots, like labels do. The content of the body shows where the key ends.
    keys = [key for key in node if f"{path}.".startswith((f".{key}.", f".{key}["))]
    if not keys:
        return False
    key = max(keys, key=len)
    rest = path[len(key) + 1 :]
    if rest:
        return _remove(node[key], rest)
    del node[key]
    return True


def _remove_from_list(items: list[Any], path: str) -> bool:
    selector = _ITEM.match(path)
    chosen = [item for item in items if selector and _selects(selector[1], item)]
    if selector is None or not chosen:
        return False
    rest = path[selector.end() :]
    if rest:
        return _remove(chosen[0], rest)
    items.remove(chosen[0])
    return True


def _selects(selector: str, item: Any) -> bool:
    if selector.startswith("="):
        return selector[1:] == json.dumps(item)
    if not isinstance(item, Mapping):
        return False
    # The server also knows default keys, such as a protocol, that the body omits.
    wanted = [each for each in _KEY_VALUE.findall(selector) if each[0] in item]
    return bool(wanted) and all(json.dumps(item[key]) == value for key, value in wanted)
