"""Pools and live objects for tests: what an API server would hold, as plain dicts."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tandem_operator.core.observation import EngineSample, RouterReport
from tandem_operator.core.role import Role
from tandem_operator.workloads.pass_plan import PassPlan, plan
from tandem_operator.workloads.world import Installation, Object, World

NOW_S = 1_790_000_000.0
NOW = "2026-09-21T14:13:20Z"
INSTALLATION = Installation(
    router_image="tandem/router:1",
    launcher_image="tandem/launcher:1",
    engine_image_cpu="tandem/engine-cpu:1",
    engine_image_gpu="tandem/engine-gpu:1",
)

SPEC: Mapping[str, Any] = {
    "model": {
        "name": "tiny",
        "maxModelLen": 2048,
        "source": {"image": {"path": "/models/tiny"}},
    },
    "slo": {"ttft": {"target": "400ms"}, "tpot": {"target": "25ms"}, "attainment": "95%"},
    "engine": {"device": "CPU", "dtype": "float32", "kvCacheMemory": "64Mi", "maxNumSeqs": 16},
    "prefill": {"maxReplicas": 8},
    "decode": {"maxReplicas": 8},
    "router": {"minReplicas": 1},
}


def pool(*changes: Mapping[str, Any], generation: int = 1, status: Any = None) -> Object:
    """Return a stored InferencePool; each change is laid over the spec, nested mappings merged."""
    spec: Any = copy.deepcopy(dict(SPEC))
    for change in changes:
        spec = _over(spec, change)
    body = {
        "apiVersion": "tandem-inference.io/v1alpha1",
        "kind": "InferencePool",
        "metadata": {
            "name": "tiny",
            "namespace": "serving",
            "uid": "8f0c",
            "resourceVersion": "17",
            "generation": generation,
        },
        "spec": spec,
    }
    return body if status is None else body | {"status": status}


def _over(under: Any, over: Any) -> Any:
    if not isinstance(under, Mapping) or not isinstance(over, Mapping):
        return copy.deepcopy(over)
    return {
        **under,
        **{key: _over(under.get(key), value) for key, value in over.items()},
    }


def world(stored: Object | None = None, **parts: Any) -> World:
    """Return a world of one pool; nothing of it lives unless given."""
    given = {"installation": INSTALLATION} | parts
    return World(pool=pool() if stored is None else stored, **given)


def after(before: World, planned: PassPlan, *, stored: Object | None = None, **parts: Any) -> World:
    """Return the world once `planned` was carried out, as server-side apply would leave it."""
    live = {_key(child): child for child in before.children}
    for child in planned.children:
        kept = (live.get(_key(child)) or {}).get("spec", {}).get("replicas")
        live[_key(child)] = copy.deepcopy(child)
        if child["kind"] == "Deployment":
            # A field that no manager applies keeps its value; a new one defaults to 1.
            live[_key(child)]["spec"]["replicas"] = 1 if kept is None else kept
    for component, replicas in planned.replicas.items():
        live["Deployment", f"tiny-{component}"]["spec"]["replicas"] = replicas
    if planned.memory_object is not None:
        live[_key(planned.memory_object)] = planned.memory_object
    if planned.keep is not None:
        live = {key: child for key, child in live.items() if key in planned.keep}
    body = copy.deepcopy(stored or dict(before.pool))
    if planned.status is not None:
        body["status"] = planned.status
    elif "status" in before.pool:
        body["status"] = before.pool["status"]
    given = {
        "installation": before.installation,
        "pods": before.pods,
        "memory": planned.memory,
    } | parts
    return World(pool=body, children=tuple(live.values()), **given)


def running(*changes: Mapping[str, Any], prefill: int = 1, decode: int = 1) -> World:
    """Return a pool whose children exist and whose pods are all Ready."""
    empty = world(pool(*changes))
    first = plan(empty, now_s=NOW_S)
    made = after(empty, first)
    counts = {"prefill": prefill, "decode": decode, "router": 1}
    for component, count in counts.items():
        deployment(made, component)["spec"]["replicas"] = count
    pods = tuple(
        pod(made, component, index) for component, count in counts.items() for index in range(count)
    )
    return replace(made, pods=pods)


def deployment(live: World, component: str) -> Object:
    """Return the live Deployment of a component."""
    return child(live.children, "Deployment", f"tiny-{component}")


def child(children: tuple[Object, ...], kind: str, name: str) -> Object:
    """Return the only child of that kind and name."""
    (found,) = [each for each in children if _key(each) == (kind, name)]
    return found


def template(planned: PassPlan, component: str) -> Object:
    """Return the pod template of a component in a plan."""
    found = child(planned.children, "Deployment", f"tiny-{component}")["spec"]["template"]
    assert isinstance(found, dict)
    return found


def container(planned: PassPlan, component: str) -> Object:
    """Return the first container of a component's pods in a plan."""
    first = template(planned, component)["spec"]["containers"][0]
    assert isinstance(first, dict)
    return first


def pod(
    live: World,
    component: str,
    index: int = 0,
    *,
    ready: bool = True,
    status: Mapping[str, Any] | None = None,
    node: str | None = "node-1",
    created: str = NOW,
    spec: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> Object:
    """Return a pod made from the component's live Deployment."""
    made_from = deployment(live, component)["spec"]["template"]["metadata"]
    conditions = [
        {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": NOW}
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"tiny-{component}-{index}",
            "namespace": "serving",
            "labels": made_from["labels"],
            "annotations": dict(made_from["annotations"]),
            "creationTimestamp": created,
        }
        | metadata,
        "spec": ({"nodeName": node} if node else {}) | dict(spec or {}),
        "status": {"phase": "Running" if ready else "Pending", "conditions": conditions}
        | (status or {}),
    }


def container_status(**state: Any) -> Object:
    """Return a pod's status with an engine container that is not ready."""
    return {"containerStatuses": [{"name": "engine", "ready": False} | state]}


def with_pod(live: World, component: str, **parts: Any) -> World:
    """Return the pool with its first pod of a component in another state, not Ready."""
    others = [p for p in live.pods if p["metadata"]["name"] != f"tiny-{component}-0"]
    return replace(live, pods=(*others, pod(live, component, ready=False, **parts)))


def status_of(live: World, *, now_s: float = NOW_S) -> Mapping[str, Any]:
    """Return the status after a pass."""
    planned = plan(live, now_s=now_s)
    return live.pool["status"] if planned.status is None else planned.status


def condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the only condition of a type."""
    (found,) = [each for each in status["conditions"] if each["type"] == kind]
    return dict(found)


def sample(
    pod_name: str,
    role: Role,
    *,
    running: float,
    waiting: float = 0.0,
    sampled_s: float = NOW_S,
) -> EngineSample:
    """Return one reading of an engine's metrics."""
    return EngineSample(
        pod=pod_name, role=role, sampled_s=sampled_s, running=running, waiting=waiting
    )


def report(*, now_s: float = NOW_S, started_s: float = NOW_S - 2000, **parts: Any) -> RouterReport:
    """Return a router that saw nothing, unless told otherwise."""
    quiet: dict[str, Any] = {
        "router": "tiny-router-0",
        "sampled_s": now_s,
        "started_s": started_s,
        "bucket_edges_tokens": (128, 512),
        "arrivals": (),
        "finished": (),
        "queued_requests": 0,
        "queued_prompt_tokens": 0,
        "prefill_requests": 0,
        "decode_requests": 0,
        "legs": (),
    }
    return RouterReport(**(quiet | parts))


def _key(body: Mapping[str, Any]) -> tuple[str, str]:
    return body["kind"], body["metadata"]["name"]
