"""`tandem lint` finds all that the operator would refuse of a stored pool, on random edits."""

import copy
from collections.abc import Iterator
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tandem_operator.api import InvalidPoolError, parse_pool
from tandem_operator.api.stored import without_nulls
from tandem_operator.cli.input.findings import findings_of
from tandem_operator.cli.input.yaml_object import objects_in
from tandem_operator.workloads.checks.acceptance import objections
from tandem_operator.workloads.pool_names import PoolName
from tests.unit.cli.wrong_pools import GOOD
from tests.unit.workloads.cluster import INSTALLATION

POOL = yaml.safe_load(GOOD)
Way = tuple[int | str, ...]


def ways(value: Any, way: Way = ()) -> Iterator[Way]:
    """Yield the way to every field and item below a value."""
    inside = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        inside = enumerate(value)
    for step, inner in inside:
        yield (*way, step)
        yield from ways(inner, (*way, step))


SPEC_WAYS = sorted(ways(POOL["spec"], ("spec",)), key=str)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**6), 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "Auto", "1Mi", "5s", "0%", "--port=80", "--grpc", "http://10.0.0.1", "x"]),
    st.text(max_size=8),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=2),
    st.dictionaries(st.sampled_from(["name", "image", "spec", "x"]), SCALARS, max_size=2),
)


@st.composite
def edited_pools(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the good pool after up to three edits: a field set, removed, or renamed."""
    pool = copy.deepcopy(POOL)
    for _ in range(draw(st.integers(1, 3))):
        *steps, last = draw(st.sampled_from(SPEC_WAYS))
        where: Any = pool
        for step in steps:
            found = where.get(step) if isinstance(where, dict) else None
            if isinstance(where, list) and isinstance(step, int) and step < len(where):
                found = where[step]
            where = found
        if isinstance(where, list) and isinstance(last, int) and last < len(where):
            where[last] = draw(VALUES)
        elif isinstance(where, dict) and last in where:
            value = where.pop(last)
            match draw(st.sampled_from(["set", "taken away", "called otherwise"])):
                case "set":
                    where[last] = draw(VALUES)
                case "called otherwise":
                    where[draw(st.sampled_from([f"{last}s", str(last)[:-1] or "x"]))] = value
    return pool


def refused(pool: dict[str, Any]) -> bool:
    """Return whether the operator would leave the pool as it was."""
    try:
        parsed = parse_pool(without_nulls(pool))
    except InvalidPoolError:
        return True
    return bool(objections(parsed.spec, INSTALLATION, name=PoolName("team", "chat", "")))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(edited_pools())
def test_every_pool_that_the_operator_refuses_has_a_finding_within_its_lines(pool):
    text = yaml.safe_dump(pool)
    [found] = objects_in(text)

    findings = findings_of(found, file="pool.yaml", installation=INSTALLATION)

    # As kubectl sends it: a whole number such as 1.0 becomes an integer.
    assert findings or not refused(found.plain())
    assert all(1 <= each.line <= text.count("\n") for each in findings)
    assert all(each.sentence and each.field for each in findings)
