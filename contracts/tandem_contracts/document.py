"""Fill the tables of `docs/reference/contracts.md` from this package; all other text stays.

A table lies between `<!-- made from NAME -->` and `<!-- end -->`.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from tandem_contracts import arrivals, engine_info, logs, names, router_settings

_TABLE = re.compile(r"(<!-- made from (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """Return the document with each of its tables filled from this package.

    Raises:
        KeyError: the document names a table that this package does not have.
    """
    return _TABLE.sub(lambda found: found[1] + _TABLES[found[2]]() + found[3], text)


def _document(kind: type[BaseModel]) -> str:
    """Return the tables of a document and of its parts, each after its first use."""
    schema = kind.model_json_schema(by_alias=True)
    parts: Mapping[str, Any] = schema.get("$defs", {})
    lines = list(_fields(schema))
    for name in dict.fromkeys(_named(schema, parts)):
        lines += ["", f"`{name}`: {parts[name].get('description', '')}", "", *_fields(parts[name])]
    return "\n".join(lines) + "\n"


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        description = " ".join(field.get("description", "").split())
        if name not in required and isinstance(field.get("default"), int | float | str):
            description = f"{description} Default: {field['default']}.".strip()
        optional = "" if name in required else ", optional"
        yield f"| `{name}` | {_type(field)}{optional} | {description} |"


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return f"`{_last(field['$ref'])}`"
    if "anyOf" in field:
        return " or ".join(_type(each) for each in field["anyOf"])
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    if field.get("type") == "array":
        items = field.get("items") or {}
        return f"list of {_type(items)}" if items else "list"
    return str(field.get("type", "any"))


def _named(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[str]:
    for name in re.findall(r"'#/\$defs/(\w+)'", str(schema["properties"])):
        yield name
        yield from _named(parts[name], parts)


def _last(reference: str) -> str:
    return reference.rpartition("/")[2]


def _names() -> str:
    """Return a table of the constants of `names`, each with the text below it in the source."""
    lines = ["| name | value | |", "|---|---|---|"]
    for name, description in texts_below(ast.parse(inspect.getsource(names)).body):
        lines.append(f"| `{name}` | `{getattr(names, name)}` | {description} |")
    return "\n".join(lines) + "\n"


def texts_below(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield each assigned name of a body with the text below it, in one line."""
    for value, text in pairwise(body):
        if not isinstance(value, ast.Assign | ast.AnnAssign) or not isinstance(text, ast.Expr):
            continue
        target = value.target if isinstance(value, ast.AnnAssign) else value.targets[0]
        yield ast.unparse(target), " ".join(ast.literal_eval(text.value).split())


def _logs() -> str:
    rows = (f"| `{name}` | {description} |\n" for name, description in logs.FIELDS.items())
    return "| field | |\n|---|---|\n" + "".join(rows)


_TABLES: Mapping[str, Callable[[], str]] = {
    "names": _names,
    "logs": _logs,
    "router_settings": lambda: _document(router_settings.RouterSettings),
    "arrivals": lambda: _document(arrivals.ArrivalsReport),
    "engine_info": lambda: _document(engine_info.EngineInfo),
}
