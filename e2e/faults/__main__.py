"""`python -m e2e.faults [FAULT ...]`: faults under load; JSON of what became of requests.

Only requests that a killed process held may fail, and none may hang. Exit 1 if that was not so.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks.load.plan import Lengths, Traffic
from e2e.cluster import names
from e2e.commands import apply, kubectl, kubectl_json
from e2e.demo import setup
from e2e.disturb import Aftermath, load_while
from e2e.pools import Pool, wait_until
from e2e.trial import NAME, NAMESPACE, open_door, trial_manifest

COUNTS = {"prefill": 2, "decode": 2, "router": 2}
OUT = names.BUILD / "faults.json"
FAULT_AFTER_S = 10.0
LIMIT_S = 60.0
KILL = "SIGKILL of a router"
KUBELET_BLIND_S = 2.0
"""Until the kubelet has looked again, a Service leads to a container whose process was killed."""


def _delete_pod(pool: Pool, role: str) -> None:
    victim = pool.pods(role)[0]
    kubectl("delete", "pod", victim.name, "-n", pool.namespace, "--wait=false")


def _kill_router(pool: Pool) -> None:
    """SIGKILL one router's process, without a word to Kubernetes."""
    victim = pool.pods("router")[0]
    pod = kubectl_json("get", "pod", victim.name, "-n", pool.namespace)
    container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    # Not ours to hide behind kubectl: the kubelet has to find out by itself.
    setup.on_node("ctr", "-n", "k8s.io", "task", "kill", "-s", "SIGKILL", container)


def _restart_routers(pool: Pool) -> None:
    kubectl("rollout", "restart", f"deployment/{pool.name}-router", "-n", pool.namespace)


def _delete_operator(_: Pool) -> None:
    kubectl("delete", "pods", "-n", setup.OPERATOR_NAMESPACE, "--all", "--wait=false")


def _remove_prometheus(_: Pool) -> None:
    kubectl("delete", "namespace", setup.PROMETHEUS_NAMESPACE, "--wait=false")


FAULTS: Mapping[str, Callable[[Pool], None]] = {
    "delete a prefill pod": lambda pool: _delete_pod(pool, "prefill"),
    "delete a decode pod": lambda pool: _delete_pod(pool, "decode"),
    "rollout restart of the routers": _restart_routers,
    KILL: _kill_router,
    "delete the operator": _delete_operator,
    "remove Prometheus": _remove_prometheus,
}


def _whole(pool: Pool) -> None:
    wait_until(lambda: pool.is_whole(counts=COUNTS), within_s=240.0, what=f"all of {COUNTS} Ready")


def _run(pool: Pool, *, name: str, url: str) -> Aftermath:
    traffic = Traffic(
        name=name.replace(" ", "-").lower(),
        rate_rps=2.0,
        duration_s=40.0,
        prompt_tokens=Lengths(50, 600),
        output_tokens=Lengths(20, 160),
    )
    return load_while(
        lambda: FAULTS[name](pool),
        url=url,
        model="tiny",
        traffic=traffic,
        after_s=FAULT_AFTER_S,
        limit_s=LIMIT_S,
        blind_s=KUBELET_BLIND_S if name == KILL else 0.0,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen faults, or all, on a pool of their own."""
    parser = argparse.ArgumentParser(prog="python -m e2e.faults", description=__doc__)
    known = "; ".join(f'"{name}"' for name in FAULTS)
    parser.add_argument("fault", nargs="*", default=list(FAULTS), help=f"{known} (default: all)")
    chosen = parser.parse_args(arguments).fault
    if unknown := set(chosen) - set(FAULTS):
        parser.error(f"there is no fault {', '.join(sorted(unknown))}; choose of {known}")
    images = setup.built_images()
    setup.cluster("prometheus")
    setup.install_operator(images=images)
    setup.remove_pool(namespace=NAMESPACE)
    setup.make_namespace(NAMESPACE)
    apply(trial_manifest(images=images, counts=COUNTS))
    pool = Pool(namespace=NAMESPACE, name=NAME)
    pool.wait_ready()
    url = open_door(pool)
    results: dict[str, dict[str, object]] = {}
    kept = True
    for name in chosen:
        _whole(pool)
        aftermath = _run(pool, name=name, url=url)
        fault_over = time.monotonic()
        _whole(pool)
        results[name] = {
            **aftermath.to_json(),
            "whole_again_s_after_load": round(time.monotonic() - fault_over, 1),
        }
        kept &= not aftermath.hung and not aftermath.failed_without_cause
        print(f"{name}: {json.dumps(results[name])}", flush=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n")
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    setup.cluster("prometheus")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
