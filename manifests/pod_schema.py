"""The fields of a Kubernetes pod with their types, from the official client's models.

The client is made from the API server's OpenAPI document, and `pyproject.toml` pins its version. So
a new version of the client brings the new fields with the next `make crds`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from importlib import metadata

from kubernetes.aio.client import models

ROOTS = ("V1PodSpec", "V1ObjectMeta")
_PLAIN = {
    "str": "text",
    "int": "number",
    "bool": "flag",
    # A port is a number or a name; a time has a form of its own, which is not checked here.
    "object": "any",
    "datetime": "any",
}
# The client calls a quantity a text, but `2` is as good as `"2"`.
_AMOUNTS = {"divisor", "limits", "overhead", "requests", "sizeLimit"}


def render() -> str:
    """Return JSON, one line for each type: `Name[]` is a list of a type, `text{}` a map to text."""
    types = dict(sorted(_types()))
    lines = (f"  {json.dumps(name)}: {json.dumps(fields)}" for name, fields in types.items())
    return (
        f'{{\n "kubernetes": "{_kubernetes()}",\n "types": {{\n' + ",\n".join(lines) + "\n }\n}\n"
    )


def _kubernetes() -> str:
    """Return the version of Kubernetes: version 37 of the client is made from 1.37."""
    return "1." + metadata.version("kubernetes").partition(".")[0]


def _types() -> Iterator[tuple[str, Mapping[str, str]]]:
    todo, seen = list(ROOTS), set[str]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        model = getattr(models, name)
        kinds = {model.attribute_map[each]: kind for each, kind in model.openapi_types.items()}
        yield _short(name), {field: _kind(field, kind) for field, kind in sorted(kinds.items())}
        words = (word for kind in kinds.values() for word in re.findall(r"\w+", kind))
        todo += [word for word in words if word not in ("List", "Dict", *_PLAIN)]


def _kind(field: str, kind: str) -> str:
    if inner := re.fullmatch(r"List\[(.+)\]", kind):
        return f"{_kind(field, inner[1])}[]"
    if inner := re.fullmatch(r"Dict\[str, (.+)\]", kind):
        return f"{_kind(field, inner[1])}{{}}"
    if field in _AMOUNTS and kind == "str":
        return "amount"
    return _PLAIN.get(kind) or _short(kind)


def _short(name: str) -> str:
    return re.sub(r"^(Core)?V1", "", name)
