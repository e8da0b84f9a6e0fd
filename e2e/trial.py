"""The pool that tests and fault runs break: the tiny sample at a fixed size, with real vLLM."""

from typing import Any

from e2e.commands import apply, kubectl_json
from e2e.demo.setup import sample_pool
from e2e.pools import LABEL, Pool

NAMESPACE = "tandem-e2e"
NAME = "trial"
COUNTS = {"prefill": 1, "decode": 2, "router": 1}


def trial_manifest(
    *, images: dict[str, str], counts: dict[str, int] = COUNTS, namespace: str = NAMESPACE
) -> dict[str, Any]:
    """A pool whose pods come and go by the tests' doing alone, each with a whole core to start."""
    pool = sample_pool(namespace=namespace, images=images)
    pool["metadata"]["name"] = NAME
    spec = pool["spec"]
    for role in ("prefill", "decode"):
        spec.setdefault(role, {}).update(
            minReplicas=counts[role],
            maxReplicas=counts[role],
            resources={
                "requests": {"cpu": "50m", "memory": "1Gi"},
                "limits": {"cpu": "1", "memory": "3Gi"},
            },
        )
    spec["router"] = {
        **spec.get("router", {}),
        "minReplicas": counts["router"],
    }
    return pool


def open_door(pool: Pool) -> str:
    """Make the pool's router reachable from this machine over a port of the node."""
    door = f"{pool.name}-door"
    selector = {f"{LABEL}/pool": pool.name, f"{LABEL}/role": "router"}
    apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": door, "namespace": pool.namespace},
            "spec": {
                "type": "NodePort",
                "selector": selector,
                "ports": [{"name": "http", "port": 80, "targetPort": 8000}],
            },
        }
    )
    [port] = kubectl_json("get", "service", door, "-n", pool.namespace)["spec"]["ports"]
    [node] = kubectl_json("get", "nodes")["items"]
    addresses = {each["type"]: each["address"] for each in node["status"]["addresses"]}
    return f"http://{addresses['InternalIP']}:{port['nodePort']}"
