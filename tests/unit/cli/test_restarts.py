"""`tandem diff` says of restarts what the operator does to pod templates."""

from typing import Any

import pytest

from tandem_operator.api import parse_pool
from tandem_operator.cli.output.compared import need_new_pods
from tandem_operator.workloads.pass_plan import plan
from tests.unit.workloads.cluster import NOW_S, pool, world

EDITS: tuple[tuple[str, Any], ...] = (
    ("slo.attainment", "99%"),
    ("scaling.gpuBudget", 12),
    ("metrics.source", "Direct"),
    ("cost.perGPUHour", "2.49"),
    ("networkPolicies", "External"),
    ("router.minReplicas", 2),
    ("router.maxReplicas", 3),
    ("router.limits.queuedRequests", 7),
    ("router.limits.inFlightBodyBytes", 500_000_000),
    ("router.timeouts.request", "5m"),
    ("router.decodeAdmission", "Unlimited"),
    ("router.prefillOverflow", "Never"),
    ("router.prefillPlacement", "LeastLoaded"),
    ("router.cacheSaltHeader", "X-Tenant-Id"),
    ("router.tenants.header", "X-Tenant-Id"),
    ("router.requestLog", "All"),
    ("router.tracing.endpoint", "http://otel:4318"),
    ("router.image", "router:2"),
    ("prefill.minReplicas", 2),
    ("decode.maxReplicas", 9),
    ("decode.management", "External"),
    ("decode.resources.limits", {"memory": "4Gi"}),
    ("engine.maxNumSeqs", 17),
    ("engine.image", "engine:2"),
    ("model.maxModelLen", 1024),
    ("model.cache.persistentVolumeClaim.claimName", "weights"),
    ("model.cache.size", "200Gi"),
    ("model.aliases", ["small"]),
    ("router.gateway", {"parentRefs": [{"name": "public"}], "hostnames": ["llm.example.com"]}),
    ("placement.priorityClassName", "high"),
)


def templates(*changes: Any) -> list[Any]:
    made = plan(world(pool(*changes)), now_s=NOW_S)
    assert made.decision is not None, made.status
    return [each["spec"]["template"] for each in made.children if each["kind"] == "Deployment"]


# Of a field that was set before, since to set one for the first time may be another matter.
EDITS_OF_A_VALUE: tuple[tuple[Any, Any], ...] = (
    ({"model": {"cache": {"size": "200Gi"}}}, {"model": {"cache": {"size": "300Gi"}}}),
    (
        {"model": {"cache": {"size": "200Gi"}}},
        {"model": {"cache": {"size": "200Gi", "storageClassName": "nfs"}}},
    ),
    ({"model": {"cache": {"size": "200Gi"}}}, {}),
    (
        {"model": {"cache": {"size": "200Gi"}}},
        {"model": {"cache": {"persistentVolumeClaim": {"claimName": "weights"}}}},
    ),
    (
        {"model": {"cache": {"persistentVolumeClaim": {"claimName": "weights"}}}},
        {"model": {"cache": {"persistentVolumeClaim": {"claimName": "others"}}}},
    ),
    (
        {"router": {"tracing": {"endpoint": "http://otel:4318"}}},
        {"router": {"tracing": {"endpoint": "http://otel:4318", "sampling": "5%"}}},
    ),
    ({"router": {"image": "router:2"}}, {"router": {"image": "router:3"}}),
)


def agree(old: Any, new: Any) -> bool:
    """Return whether `diff` names fields exactly where pod templates differ."""
    pools = (parse_pool(pool(old)), parse_pool(pool(new)))
    return (templates(old) != templates(new)) == bool(need_new_pods(pools))


@pytest.mark.parametrize(("field", "value"), EDITS, ids=[field for field, _ in EDITS])
def test_a_field_that_is_set_replaces_pods_exactly_where_diff_says_so(
    field: str, value: Any
) -> None:
    edit: Any = value
    for step in reversed(field.split(".")):
        edit = {step: edit}

    assert agree({}, edit)


@pytest.mark.parametrize(("old", "new"), EDITS_OF_A_VALUE)
def test_a_value_that_changes_replaces_pods_exactly_where_diff_says_so(old: Any, new: Any) -> None:
    assert agree(old, new)
