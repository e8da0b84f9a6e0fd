"""The pool that tests and fault runs break: the tiny sample at a fixed size, with real vLLM."""

from typing import Any

from e2e.commands import apply
from e2e.demo.setup import sample_pool
from e2e.pools import LABEL, Pool, wait_for_door

NAMESPACE = "tandem-e2e"
NAME = "trial"
DOOR_PORT = 30081
"""One of the NodePorts that kind publishes on 127.0.0.1."""
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
        "maxReplicas": counts["router"],
    }
    return pool


def open_door(pool: Pool) -> str:
    """Make the pool's router reachable from this machine, and from no other."""
    selector = {f"{LABEL}/pool": pool.name, f"{LABEL}/role": "router"}
    port = {"name": "http", "port": 80, "targetPort": 8000, "nodePort": DOOR_PORT}
    apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"{pool.name}-door", "namespace": pool.namespace},
            "spec": {"type": "NodePort", "selector": selector, "ports": [port]},
        }
    )
    url = f"http://127.0.0.1:{DOOR_PORT}"
    wait_for_door(url)
    return url
