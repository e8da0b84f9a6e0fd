"""The owners of fields that Tandem wants to apply, and whether Tandem may take them. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_MANAGER = re.compile(r'^conflict with "([^"]*)"')


@dataclass(frozen=True, slots=True)
class Conflict:
    """One field that another manager owns with another value."""

    field: str
    manager: str


def parse_conflicts(status: Mapping[str, Any]) -> tuple[Conflict, ...]:
    """Return fields and managers from the `Status` of a 409; empty if it is no apply conflict."""
    causes = (status.get("details") or {}).get("causes") or []
    found = []
    for cause in causes:
        if cause.get("reason") == "FieldManagerConflict":
            manager = _MANAGER.match(str(cause.get("message") or ""))
            found.append(
                Conflict(
                    field=str(cause.get("field") or "").lstrip("."),
                    manager=manager[1] if manager else "unknown",
                )
            )
    return tuple(found)


def forcible(conflicts: Iterable[Conflict], *, prefixes: tuple[str, ...]) -> bool:
    """Return whether every conflicting field lies under one that is ours by contract."""
    found = tuple(conflicts)
    return bool(found) and all(_under(conflict.field, prefixes) for conflict in found)


def not_ours(conflicts: Iterable[Conflict], *, prefixes: tuple[str, ...]) -> tuple[Conflict, ...]:
    """Return the conflicts about fields that are not ours by contract."""
    return tuple(each for each in conflicts if not _under(each.field, prefixes))


def _under(field: str, prefixes: tuple[str, ...]) -> bool:
    return any(
        field == prefix
        or field.startswith((f"{prefix}.", f"{prefix}["))
        or (prefix.endswith("/") and field.startswith(prefix))
        for prefix in prefixes
    )


def describe(conflicts: Iterable[Conflict]) -> str:
    """Return `spec.replicas (by kubectl), ...`, shortened for people."""
    parts = [f"{conflict.field} (by {conflict.manager})" for conflict in conflicts]
    shown = ", ".join(parts[:5])
    return shown if len(parts) <= 5 else f"{shown} and {len(parts) - 5} more"


def owners_of(observed: Mapping[str, Any], path: tuple[str, ...]) -> frozenset[str]:
    """Return the managers that own the field at `path`, from the object's managedFields."""
    owners = set()
    for entry in (observed.get("metadata") or {}).get("managedFields") or []:
        node: Any = entry.get("fieldsV1")
        for step in path:
            node = node.get(f"f:{step}") if isinstance(node, Mapping) else None
        if node is not None:
            owners.add(str(entry.get("manager") or "unknown"))
    return frozenset(owners)
