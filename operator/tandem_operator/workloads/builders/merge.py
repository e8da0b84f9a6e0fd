"""Strategic merge of pod templates: lists by key, as `kubectl` merges them.

The later layer wins, in two uses: a user's pod template over Tandem's defaults, and Tandem's own
fields over both. A template of any shape merges, and lost fields are named.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
    "claims": "name",
}
# Items of the other keyed lists are replaced whole. An `env` item merged from one with `value` and
# one with `valueFrom` would be refused by the API server.
_MERGED_ITEMS = frozenset({"containers", "initContainers"})


def merged(under: Any, over: Any) -> Any:
    """Return `under` with `over` laid on it. A null in `over` removes the field."""
    if not isinstance(over, Mapping):
        return over
    result = dict(under) if isinstance(under, Mapping) else {}
    for field, value in over.items():
        if value is None:
            result.pop(field, None)
        elif isinstance(value, list):
            result[field] = _merged_list(field, result.get(field), value)
        else:
            result[field] = merged(result.get(field), value)
    return result


def overridden(template: Any, own: Any) -> tuple[str, ...]:
    """Return fields of `template` with another value in `own`: `spec.containers[engine].args`."""
    return tuple(sorted(set(_overridden(template, own, ""))))


def _merged_list(field: str, under: Any, over: list[Any]) -> list[Any]:
    over_items = _by_key(field, over)
    under_items = _by_key(field, under)
    if over_items is None or under_items is None:
        return over
    result = dict(under_items)
    for key, item in over_items.items():
        result[key] = merged(under_items.get(key), item) if field in _MERGED_ITEMS else item
    return list(result.values())


def _by_key(field: str, items: Any) -> dict[Hashable, Any] | None:
    """Return the items by their merge key; `None` if they have none."""
    key = _KEYS.get(field)
    if key is None or not isinstance(items, list):
        return None
    found: dict[Hashable, Any] = {}
    for item in items:
        value = item.get(key) if isinstance(item, Mapping) else None
        if not isinstance(value, str | int):
            return None
        # A port may appear once for each protocol.
        other = field == "ports" and item.get("protocol") not in (None, "TCP")
        found[f"{value}/{item['protocol']}" if other else value] = item
    return found


def _overridden(template: Any, own: Any, path: str) -> Iterator[str]:
    if isinstance(own, Mapping) and isinstance(template, Mapping):
        for field, value in own.items():
            if field in template:
                yield from _overridden_field(field, template[field], value, f"{path}.{field}")
    elif template != own:
        yield path.lstrip(".")


def _overridden_field(field: str, template: Any, own: Any, path: str) -> Iterator[str]:
    own_items, items = _by_key(field, own), _by_key(field, template)
    if own_items is None or items is None:
        yield from _overridden(template, own, path)
        return
    for key, item in own_items.items():
        if key not in items:
            continue
        if field in _MERGED_ITEMS:
            yield from _overridden(items[key], item, f"{path}[{key}]")
        elif items[key] != item:
            yield f"{path}[{key}]".lstrip(".")
