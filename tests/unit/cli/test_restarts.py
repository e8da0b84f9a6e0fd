"""What `tandem diff` says of restarts is what the operator does to pod templates."""

from typing import Any

import pytest

from tandem_operator.cli.output.compared import RESTARTS_NOTHING
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
    ("router.cacheSaltHeader", "X-Tenant-Id"),
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
    ("placement.priorityClassName", "high"),
)


def templates(*changes: Any) -> list[Any]:
    made = plan(world(pool(*changes)), now_s=NOW_S)
    assert made.decision is not None, made.status
    return [each["spec"]["template"] for each in made.children if each["kind"] == "Deployment"]


@pytest.mark.parametrize(("field", "value"), EDITS, ids=[field for field, _ in EDITS])
def test_an_edit_replaces_pods_exactly_where_diff_says_so(field: str, value: Any) -> None:
    edit: Any = value
    for step in reversed(field.split(".")):
        edit = {step: edit}

    assert (templates(edit) == templates()) == field.startswith(RESTARTS_NOTHING)
