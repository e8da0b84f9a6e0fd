"""The pools of one folder that want the same requests of a Gateway."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from tandem_operator.api import InferencePool, InvalidPoolError, parse_pool
from tandem_operator.api.stored import without_nulls
from tandem_operator.cli.input.finding import Finding, Severity
from tandem_operator.cli.input.yaml_object import YamlObject
from tandem_operator.workloads.checks.shared_hosts import REMEDY, contested

FIELD = "spec.router.gateway"
_STEPS = ("spec", "router", "gateway")


def shared_hosts_of(placed: Sequence[tuple[Path, YamlObject]]) -> Iterator[Finding]:
    """Yield a warning at the second of two such pools. Folders may be of different clusters."""
    for _, beside in groupby(placed, key=lambda each: each[0].parent):
        found: dict[int, tuple[Path, YamlObject]] = {}
        pools: list[InferencePool] = []
        for path, written in beside:
            try:
                pool = parse_pool(without_nulls(written.plain()))
            except InvalidPoolError:
                continue
            pools.append(pool)
            found[id(pool)] = (path, written)
        for one, other, what in contested(pools):
            path, written = found[id(other)]
            yield Finding(
                file=str(path),
                line=written.line(_STEPS),
                field=FIELD,
                sentence=f"pool {one.metadata.name} wants {what} too, and the Gateway gives them to"
                f" the older route; {REMEDY}",
                severity=Severity.WARNING,
            )
