"""The fields of a pod template in Kubernetes: the CRD accepts any field, so it misses a typo.

The API server decides when Tandem applies a Deployment, because its version may be newer than the
file here. This check says the same earlier, and names the field that was meant.
"""

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from typing import Any

from tandem_operator.api import PoolSpec
from tandem_operator.api.parse import plainly
from tandem_operator.api.spelling import advice
from tandem_operator.workloads.builders.pod_templates import Template
from tandem_operator.workloads.builders.services import COMPONENTS
from tandem_operator.workloads.objection import Objection
from tandem_operator.workloads.pool_names import ROUTER

FILE = "workloads/checks/pod_schema.json"
"""Below the package; `manifests/pod_schema.py` makes it."""


MOST_TOLD = 8
"""Most faults in a status: a template with thousands of typos must not delay other pools."""


def template_faults(spec: PoolSpec) -> tuple[Objection, ...]:
    """Return unknown fields of the pool's pod templates, `MOST_TOLD` at most."""
    return tuple(islice(_template_faults(spec), MOST_TOLD))


def _template_faults(spec: PoolSpec) -> Iterator[Objection]:
    for component in COMPONENTS:
        fleet = spec.router if component == ROUTER else spec.fleets[component]
        if fleet.pod_template is not None:
            yield from pod_faults(fleet.pod_template.spec, path=f"{component}.podTemplate.spec")


def explained(refusal: str, faults: Sequence[Objection]) -> str:
    """Return the API server's words on a child, after their meaning in the pool's own template."""
    words = set(re.findall(r"\w+", refusal))
    if not any(_name(fault) in words for fault in faults):
        return refusal
    return f"{_in_sentences(faults)} {refusal}"


def without_effect(faults: Sequence[Objection], pods: Iterable[Template]) -> str:
    """Return sentences on faults that are in no pod of Tandem: the API server never sees them.

    For example, a null under a misspelt field removes no default.
    """
    if not faults:
        return ""
    sent = {name for pod in pods for name in _names(pod.body)}
    return _in_sentences(fault for fault in faults if _name(fault) not in sent)


def pod_faults(spec: Any, *, path: str) -> Iterator[Objection]:
    """Yield fields that no PodSpec has, and values of a wrong type."""
    return _faults(spec, "PodSpec", (_Place("PodSpec", path),))


def metadata_faults(metadata: Any, *, path: str) -> Iterator[Objection]:
    """Yield the same faults of an object's metadata."""
    return _faults(metadata, "ObjectMeta", (_Place("ObjectMeta", path),))


@dataclass(frozen=True, slots=True)
class _Place:
    """An object on the path to a field, and its type."""

    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class _Schema:
    """The types by name, and the types of their fields, for one version of Kubernetes."""

    kubernetes: str
    types: Mapping[str, Mapping[str, str]]


@functools.cache
def _schema() -> _Schema:
    text = (files("tandem_operator") / FILE).read_text(encoding="utf-8")
    return _Schema(**json.loads(text))


def _faults(value: Any, kind: str, trail: tuple[_Place, ...]) -> Iterator[Objection]:
    """Yield the faults of a value at the end of `trail`; null removes a default."""
    path = trail[-1].path
    if value is None:
        return
    if kind.endswith("[]"):
        yield from _list_faults(value, kind.removesuffix("[]"), trail)
    elif kind.endswith("{}"):
        yield from _map_faults(value, kind.removesuffix("{}"), trail)
    elif kind in _schema().types:
        yield from _object_faults(value, kind, trail)
    elif not _IS_OF[kind](value):
        yield _fault(path, plainly(_CALLED[kind], value))


def _list_faults(value: Any, kind: str, trail: tuple[_Place, ...]) -> Iterator[Objection]:
    path = trail[-1].path
    if not isinstance(value, list):
        yield _fault(path, plainly("list_type", value))
        return
    for index, item in enumerate(value):
        place = _Place(kind, f"{path}[{index}]")
        if item is None:
            yield _fault(place.path, "must not be null; remove the item")
        yield from _faults(item, kind, (*trail[:-1], place))


def _map_faults(value: Any, kind: str, trail: tuple[_Place, ...]) -> Iterator[Objection]:
    path = trail[-1].path
    if not isinstance(value, Mapping):
        yield _fault(path, plainly("dict_type", value))
        return
    for key, item in value.items():
        yield from _faults(item, kind, (*trail[:-1], _Place(kind, f"{path}[{key}]")))


def _object_faults(value: Any, kind: str, trail: tuple[_Place, ...]) -> Iterator[Objection]:
    path, fields = trail[-1].path, _schema().types[kind]
    if not isinstance(value, Mapping):
        yield _fault(path, plainly("dict_type", value))
        return
    for name, item in value.items():
        here = f"{path}.{name}"
        if name in fields:
            yield from _faults(item, fields[name], (*trail, _Place(fields[name], here)))
        else:
            instead = advice(name, known=fields, places=_places_of(name, trail))
            words = f"Kubernetes {_schema().kubernetes} has no such field; {instead}"
            yield _fault(here, words)


def _places_of(name: str, trail: tuple[_Place, ...]) -> Iterator[str]:
    """Yield objects on the path, or directly below it, that have a field of this name."""
    types = _schema().types
    for place in trail[:-1]:
        if name in types.get(place.kind, ()):
            yield place.path
    here = trail[-1]
    for field, kind in types[here.kind].items():
        if name in types.get(kind.removesuffix("[]"), ()) and field not in _NEVER_WRITTEN:
            yield f"{here.path}.{field}" + ("[0]" if kind.endswith("[]") else "")


def _in_sentences(faults: Iterable[Objection]) -> str:
    return " ".join(str(each) if str(each).endswith("?") else f"{each}." for each in faults)


def _names(value: Any) -> Iterator[str]:
    """Yield the names of all fields below a value, at any depth: the text is the user's."""
    open_values = [value]
    while open_values:
        inner = open_values.pop()
        if isinstance(inner, Mapping):
            yield from inner
            open_values += inner.values()
        elif isinstance(inner, list):
            open_values += inner


def _name(fault: Objection) -> str:
    """Return the last field of the path, as the API server names it too."""
    return re.sub(r"\[[^\]]*\]", "", fault.field).rpartition(".")[2]


def _fault(path: str, words: str) -> Objection:
    return Objection(path, f"{path}: {words}")


# Kubernetes fills it in, for `kubectl debug`.
_NEVER_WRITTEN = frozenset({"ephemeralContainers"})
_IS_OF: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "flag": lambda value: isinstance(value, bool),
    "amount": lambda value: isinstance(value, str | int | float) and not isinstance(value, bool),
    "any": lambda _: True,
}
_CALLED = {
    "text": "string_type",
    "number": "int_type",
    "flag": "bool_type",
    "amount": "quantity",
}
