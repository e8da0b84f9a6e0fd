"""The pool that tests and fault runs break: the tiny sample at a fixed size, with real vLLM."""

from typing import Any

from e2e.commands import apply
from e2e.demo.setup import sample_pool
from e2e.pools import LABEL, Pool, wait_for_door

NAMESPACE = "tandem-e2e"
NAME = "trial"
DOOR_PORT, ENGINE_DOOR_PORT = 30081, 30084
"""Two of the NodePorts that kind publishes on 127.0.0.1."""
COUNTS = {"prefill": 1, "decode": 2, "router": 1}


def trial_manifest(
    *, images: dict[str, str], counts: dict[str, int] = COUNTS, namespace: str = NAMESPACE
) -> dict[str, Any]:
    """Return a pool whose pods only tests add or remove, each with a whole core to start."""
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
    return _open(pool, "router", port=DOOR_PORT, answers="/ready")


def open_engine_door(pool: Pool) -> str:
    """Make the pool's prefill engine reachable likewise, which no client should need."""
    return _open(pool, "prefill", port=ENGINE_DOOR_PORT, answers="/health")


def _open(pool: Pool, role: str, *, port: int, answers: str) -> str:
    selector = {f"{LABEL}/pool": pool.name, f"{LABEL}/role": role}
    opened = {"name": "http", "port": 80, "targetPort": 8000, "nodePort": port}
    name = f"{pool.name}-door-{role}"
    apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": pool.namespace},
            "spec": {"type": "NodePort", "selector": selector, "ports": [opened]},
        }
    )
    url = f"http://127.0.0.1:{port}"
    wait_for_door(url, path=answers)
    return url
