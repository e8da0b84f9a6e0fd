"""The faults that the API server and the operator would find in the pools of a file."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem_operator.api import API_VERSION, GROUP, KIND, ROLE_KIND, InvalidPoolError, parse_pool
from tandem_operator.api.parse import Fault, Steps, after_field
from tandem_operator.api.spelling import nearest
from tandem_operator.api.stored import without_nulls
from tandem_operator.cli.command_errors import BadInputError
from tandem_operator.cli.input.finding import Finding, Severity
from tandem_operator.cli.input.manifest import read_text
from tandem_operator.cli.input.shared_host_findings import shared_hosts_of
from tandem_operator.cli.input.yaml_object import YamlError, YamlObject, objects_in
from tandem_operator.core.role import Role
from tandem_operator.workloads.builders.children import templates_of
from tandem_operator.workloads.builders.route_names import route_objections
from tandem_operator.workloads.builders.services import COMPONENTS
from tandem_operator.workloads.checks.acceptance import objections
from tandem_operator.workloads.checks.pod_schema import metadata_faults, pod_faults
from tandem_operator.workloads.objection import Objection
from tandem_operator.workloads.pool_names import PoolName
from tandem_operator.workloads.world import Installation


@dataclass(frozen=True, slots=True, kw_only=True)
class Linted:
    """The findings in several files, and the amount that was read.

    Attributes:
        skipped: number of objects that are not pools of Tandem.
        unreadable: why a file could not be read to its end, a sentence each.
    """

    findings: tuple[Finding, ...]
    pools: int
    skipped: int
    unreadable: tuple[str, ...]


def lint_files(paths: Iterable[Path], installation: Installation) -> Linted:
    """Return the findings of all files; a file that cannot be read does not stop the others."""
    findings: list[Finding] = []
    unreadable: list[str] = []
    placed: list[tuple[Path, YamlObject]] = []
    pools = skipped = 0
    for path in paths:
        try:
            for found in objects_in(read_text(path)):
                if not is_meant_for_tandem(found):
                    skipped += 1
                    continue
                pools += 1
                findings += findings_of(found, file=str(path), installation=installation)
                placed.append((path, found))
        except BadInputError as error:
            unreadable.append(str(error))
        except YamlError as error:
            unreadable.append(f"{path}{error.where}: {error}")
    findings += shared_hosts_of(placed)
    return Linted(
        findings=tuple(findings), pools=pools, skipped=skipped, unreadable=tuple(unreadable)
    )


def is_meant_for_tandem(found: YamlObject) -> bool:
    """Return whether an object is an InferencePool, perhaps with a typo in kind or version."""
    version, kind = found.word("apiVersion"), found.word("kind")
    group, _, _ = version.partition("/")
    if group == GROUP:
        return True
    # The Gateway API has an InferencePool too.
    return kind == KIND and (not version or nearest(group, (GROUP,)) is not None)


def findings_of(found: YamlObject, *, file: str, installation: Installation) -> list[Finding]:
    """Return the findings of one object in the order of its lines, one for each field.

    Raises:
        YamlError: the object holds what JSON cannot.
    """
    by_place: dict[tuple[int, str], Finding] = {}
    for finding in _Pool(found, file, installation).findings():
        by_place.setdefault((finding.line, finding.field), finding)
    return sorted(by_place.values(), key=lambda each: each.line)


@dataclass(frozen=True, slots=True)
class _Pool:
    """An object that is meant to be a pool, and its file."""

    found: YamlObject
    file: str
    installation: Installation

    def findings(self) -> Iterator[Finding]:
        """Yield the API server's findings first: if two findings name a field, the first counts."""
        for twice in self.found.repeated():
            yield Finding(file=self.file, line=twice.line, field=twice.path, sentence=str(twice))
        if self.found.word("kind") == ROLE_KIND:
            yield self._at(("kind",), "kind", MADE_BY_TANDEM)
            return
        obj = without_nulls(self.found.plain())
        for fault in (*_head_faults(obj), *_schema_faults(obj)):
            path = fault.path or _named(fault.message)
            yield self._at(fault.steps or _steps(path), path, fault.message)
        for objection in (
            *metadata_faults(obj.get("metadata"), path="metadata"),
            *_template_faults(obj),
        ):
            yield self._objected(objection.field, objection)
        yield from self._of_operator(obj)

    def _of_operator(self, obj: Mapping[str, Any]) -> Iterator[Finding]:
        try:
            # An unknown field hides no finding of the operator in other fields.
            pool = parse_pool({**obj, **_HEAD})
        except InvalidPoolError:
            return
        name = PoolName(pool.metadata.namespace, pool.metadata.name, pool.metadata.uid)
        refused = objections(pool.spec, self.installation, name=name)
        gateway = pool.spec.router.gateway
        routes = () if gateway is None else route_objections(gateway)
        for objection in (*refused, *routes):
            yield self._objected(f"spec.{objection.field}", objection)
        if refused:
            return
        templates = templates_of(
            pool, name=name, installation=self.installation, with_key=frozenset(Role)
        )
        for component, template in templates.items():
            for field in template.overridden:
                path = f"spec.{component}.podTemplate.{field}"
                yield self._at(_steps(path), path, OVERRIDDEN, severity=Severity.WARNING)

    def _objected(self, path: str, objection: Objection) -> Finding:
        return self._at(_steps(path), path, objection.sentence)

    def _at(
        self, steps: Steps, path: str, sentence: str, *, severity: Severity = Severity.ERROR
    ) -> Finding:
        return Finding(
            file=self.file,
            line=self.found.line(steps),
            field=path,
            sentence=after_field(path, sentence),
            severity=severity,
        )


_HEAD = {"apiVersion": API_VERSION, "kind": KIND}
MADE_BY_TANDEM = (
    "Tandem makes PoolRoles itself; leave this object out, and set management: External on the"
    " role of the InferencePool"
)
OVERRIDDEN = "Tandem sets this field itself and ignores yours; remove it"


def _head_faults(obj: Mapping[str, Any]) -> Iterator[Fault]:
    for name, right in _HEAD.items():
        given = obj.get(name)
        if given is None:
            yield Fault((name,), f"this field is required; write {name}: {right}")
        elif given != right:
            yield Fault((name,), f"must be {right}; got {given!r}")


def _schema_faults(obj: Mapping[str, Any]) -> tuple[Fault, ...]:
    try:
        parse_pool({**obj, **_HEAD}, strict=True)
    except InvalidPoolError as error:
        return error.faults
    return ()


def _template_faults(obj: Mapping[str, Any]) -> Iterator[Objection]:
    """Yield the faults in specs of pod templates, which the CRD does not check."""
    for component in COMPONENTS:
        value: Any = obj
        steps = ("spec", str(component), "podTemplate", "spec")
        for step in steps:
            value = value.get(step) if isinstance(value, Mapping) else None
        yield from pod_faults(value, path=".".join(steps))


def _named(sentence: str) -> str:
    """Return the field at the start of a rule about the whole object: the CRD cannot name it."""
    return sentence.partition(" ")[0]


def _steps(path: str) -> Steps:
    """Return the steps of a path such as `containers[0].env` or `containers[engine].env`."""
    found = re.findall(r"\[([^\]]*)\]|([^.\[\]]+)", path)
    return tuple(int(item) if item.isdecimal() else item or name for item, name in found)
