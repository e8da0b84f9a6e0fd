"""docs/reference/api.md, made from the CRDs: `python -m tandem_operator.api.reference`."""

import json
import sys
from collections.abc import Iterator

from tandem_operator.api.crd import custom_resource_definition, pool_role_definition
from tandem_operator.api.rules import VALIDATIONS
from tandem_operator.api.structural import Schema

_HEAD = """# InferencePool reference

`inferencepools.tandem-inference.io/v1alpha1` (short name `ipool`), made from the models by `make
crds`; the same words as in `kubectl explain inferencepools.tandem-inference.io.spec`. Durations are
strings such as `500ms`, `1.5s` or `1m30s`; quantities are Kubernetes quantities such as `64Mi`.
"""


_ROLE_HEAD = """
# PoolRole reference

`poolroles.tandem-inference.io/v1alpha1` (short name `irole`): a role of a pool with `management:
External`, as the target of `/scale`. It has the name of the role's Deployment, such as
`chat-decode`. Tandem makes it, and removes it when the role is Managed again
([how to use it](../how-to/scale-with-hpa-or-keda.md)).
"""


def render() -> str:
    """The reference as Markdown: a table of fields per object, rules below it."""
    schema = _schema(custom_resource_definition())
    lines = [_HEAD, *_rules(schema)]
    for part in ("spec", "status"):
        lines += _section(part, schema["properties"][part])
    lines.append(_ROLE_HEAD)
    role = _schema(pool_role_definition())
    for part in ("spec", "status"):
        lines += _section(f"PoolRole.{part}", role["properties"][part])
    return "\n".join(lines).rstrip() + "\n"


def _schema(definition: Schema) -> Schema:
    found: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def _section(path: str, schema: Schema) -> Iterator[str]:
    yield f"\n## `{path}`\n"
    yield schema["description"] + "\n"
    yield "| field | type | default | meaning |\n|---|---|---|---|"
    required = schema.get("required", ())
    for name, child in schema["properties"].items():
        default = f"`{json.dumps(child['default'])}`" if "default" in child else ""
        if name in required:
            default = "required"
        cells = (f"`{name}`", _type(child), default, child["description"])
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield from _rules(schema)
    for name, child in schema["properties"].items():
        inner = child.get("items", child)
        if "properties" in inner:
            yield from _section(f"{path}.{name}{'[]' if 'items' in child else ''}", inner)


def _rules(schema: Schema) -> Iterator[str]:
    for rule in schema.get(VALIDATIONS, ()):
        yield f"\n* {rule['message']}."


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind: str = schema["type"]
    if kind == "array":
        return f"list of {_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map to {_type(schema['additionalProperties'])}"
    return kind + _range(schema)


def _range(schema: Schema) -> str:
    if "minimum" in schema or "maximum" in schema:
        return f" {schema.get('minimum', '')}..{schema.get('maximum', '')}"
    return ""


def main() -> None:
    """Write the reference to standard output."""
    sys.stdout.write(render())


if __name__ == "__main__":
    main()
