"""An autoscaler owns decode by its PoolRole: no two owners fight, and no request is lost.

Kubernetes' own HPA is always tested. KEDA is tested where it is installed in the cluster.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from benchmarks.load.plan import Lengths, Traffic
from e2e import external_metrics, metrics_stand_in
from e2e.commands import apply, kubectl, kubectl_json
from e2e.demo.setup import OPERATOR_NAMESPACE
from e2e.disturb import load_while
from e2e.pools import Pool, wait_until
from e2e.trial import COUNTS

FEWER = COUNTS["decode"]
MORE = FEWER + 1
TRAFFIC = Traffic(
    name="autoscaled",
    rate_rps=1.0,
    duration_s=45.0,
    prompt_tokens=Lengths(50, 200),
    output_tokens=Lengths(20, 80),
)
RECOMMENDED = "tandem_pool_desired_replicas"


@dataclass(frozen=True, slots=True)
class Owner:
    """The autoscaler of the role: its HPA by name, and how to have it want a count."""

    hpa: str
    tell: Callable[[int], None]


def scaled_object(count: int, pool: Pool) -> dict[str, Any]:
    """Return KEDA's order for decode: a real Prometheus answers with the count."""
    trigger = {
        "serverAddress": "http://prometheus.monitoring.svc:9090",
        "query": f"vector({count})",
        "threshold": "1",
        "ignoreNullValues": "false",
    }
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "decode", "namespace": pool.namespace},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "tandem-inference.io/v1alpha1",
                "kind": "PoolRole",
                "name": f"{pool.name}-decode",
            },
            "pollingInterval": 5,
            "minReplicaCount": FEWER,
            "maxReplicaCount": MORE,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior}},
            "triggers": [{"type": "prometheus", "metadata": trigger}],
        },
    }


@pytest.fixture
def hpa(pool: Pool, images: dict[str, str]) -> Iterator[Owner]:
    """A HorizontalPodAutoscaler on a metric that the test sets."""
    if has_keda():
        pytest.skip("KEDA serves external metrics here, and a cluster has one server of them")
    with metrics_stand_in.served(images["OPERATOR_IMAGE"]):
        metrics_stand_in.tell(FEWER)
        body = external_metrics.autoscaler(
            "decode", target=f"{pool.name}-decode", metric=metrics_stand_in.METRIC, most=MORE
        )
        body["spec"]["minReplicas"] = FEWER
        apply({**body, "metadata": {"name": "decode", "namespace": pool.namespace}})
        try:
            yield Owner("decode", metrics_stand_in.tell)
        finally:
            kubectl("delete", "hpa", "decode", "-n", pool.namespace)


@pytest.fixture
def keda(pool: Pool) -> Iterator[Owner]:
    """A ScaledObject of KEDA, which makes an HPA and reads Prometheus for it."""
    if not has_keda():
        pytest.skip("KEDA is not installed in this cluster")

    def tell(count: int) -> None:
        apply(scaled_object(count, pool))

    tell(FEWER)
    try:
        yield Owner("keda-hpa-decode", tell)
    finally:
        kubectl("delete", "scaledobject", "decode", "-n", pool.namespace)


def has_keda() -> bool:
    """Return whether the cluster has KEDA."""
    return bool(kubectl("get", "crd", "scaledobjects.keda.sh", "--ignore-not-found"))


@pytest.fixture
def handed_over(pool: Pool) -> Iterator[Pool]:
    """The pool, with its decode role handed over to another owner, and back after."""
    wait_until(lambda: pool.is_whole(counts=COUNTS), within_s=120.0, what=f"{COUNTS} Ready")
    pool.patch({"decode": {"management": "External", "maxReplicas": MORE}})
    wait_until(lambda: asked(pool) == FEWER, within_s=60.0, what="a PoolRole with a count")
    try:
        yield pool
    finally:
        pool.patch({"decode": {"management": None, "maxReplicas": FEWER}})
        wait_until(lambda: pool.is_whole(counts=COUNTS), within_s=120.0, what=f"{COUNTS} Ready")
        wait_until(lambda: asked(pool) is None, within_s=60.0, what="no PoolRole any more")


def read(kind: str, pool: Pool) -> dict[str, Any]:
    return kubectl_json("get", kind, f"{pool.name}-decode", "-n", pool.namespace)


def asked(pool: Pool) -> int | None:
    """Return the count that the PoolRole wants; nothing where there is none."""
    place = (f"poolrole/{pool.name}-decode", "-n", pool.namespace, "--ignore-not-found")
    found = kubectl("get", *place, "-o", "json")
    return json.loads(found).get("spec", {}).get("replicas") if found else None


def generations(pool: Pool) -> tuple[int, int]:
    """Return how often the spec of the decode Deployment and of its PoolRole was written."""
    deployment, role = (read(kind, pool) for kind in ("deployment", "poolrole"))
    return deployment["metadata"]["generation"], role["metadata"]["generation"]


def rescaled_to(pool: Pool, hpa: str) -> list[str]:
    """Return the new sizes that the autoscaler reported, in order."""
    chosen = f"involvedObject.name={hpa},reason=SuccessfulRescale"
    items = kubectl_json("get", "events", "-n", pool.namespace, "--field-selector", chosen)["items"]
    told = sorted(items, key=lambda each: each["firstTimestamp"])
    return [each["message"].partition(";")[0] for each in told for _ in range(each["count"])]


def is_followed(pool: Pool, count: int) -> bool:
    """Return whether fleet, status and condition of the role are all at a count."""
    status = read("poolrole", pool)["status"]
    [effective] = status["conditions"]
    return (
        pool.is_whole(counts={**COUNTS, "decode": count})
        and (status["replicas"], effective["reason"]) == (count, "InForce")
        and pool.read()["status"]["decode"]["ready"] == count
    )


def recommendations(pool: Pool) -> set[int | float | None]:
    """Return the counts that Tandem would set, from each of the places that tell it."""
    selector = ("-n", OPERATOR_NAMESPACE, "-l", "app.kubernetes.io/name=tandem")
    pods = [each["metadata"] for each in kubectl_json("get", "pods", *selector)["items"]]
    [operator] = [each["name"] for each in pods if "deletionTimestamp" not in each]
    place = Pool(namespace=OPERATOR_NAMESPACE, name=pool.name)
    series = {"namespace": pool.namespace, "pool": pool.name, "role": "decode"}
    return {
        read("poolrole", pool)["status"]["recommended"],
        pool.read()["status"]["decode"]["desired"],
        place.metric(operator, port=8080, name=RECOMMENDED, **series),
    }


@pytest.mark.timeout(600)
@pytest.mark.parametrize("owned_by", ["hpa", "keda"])
def test_an_autoscaler_sizes_a_serving_decode_fleet_with_one_write_for_each_change(
    handed_over: Pool, url: str, owned_by: str, request: pytest.FixtureRequest
):
    owner: Owner = request.getfixturevalue(owned_by)
    pool, before = handed_over, generations(handed_over)
    stayed = [face for role in ("prefill", "router") for face in pool.pods(role)]

    owner.tell(MORE)
    wait_until(lambda: is_followed(pool, MORE), within_s=180.0, what=f"{MORE} decode pods in use")
    wait_until(
        lambda: len(recommendations(pool)) == 1, within_s=30.0, what="one recommendation everywhere"
    )

    def shrink() -> None:
        owner.tell(FEWER)
        wait_until(lambda: is_followed(pool, FEWER), within_s=120.0, what=f"{FEWER} decode pods")

    aftermath = load_while(shrink, url=url, model="tiny", traffic=TRAFFIC, after_s=3.0)

    assert [(record.request_id, record.why) for record in aftermath.failed] == []
    # One write up and one down, of the autoscaler and of Tandem after it.
    after = generations(pool)
    assert rescaled_to(pool, owner.hpa) == [f"New size: {MORE}", f"New size: {FEWER}"]
    assert tuple(now - then for now, then in zip(after, before, strict=True)) == (2, 2)
    assert pool.condition("FieldConflict")["status"] == "False"
    assert [face for role in ("prefill", "router") for face in pool.pods(role)] == stayed
