"""The real operator as a process against the control plane, and pods as a kubelet shows them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import yaml

from e2e.cluster.ports import free_port

CRDS = Path("crds")
GROUP = "/apis/tandem-inference.io/v1alpha1"
SAMPLE = Path("manifests/samples/tiny-cpu.yaml")
ANSWER_S, ENDS_WITHIN_S = 30.0, 120.0
"""Bounds of a hang: a machine that does much else may take seconds for an answer."""
LISTED = (
    ("/api/v1", "configmaps", "ConfigMap"),
    ("/api/v1", "pods", "Pod"),
    ("/api/v1", "serviceaccounts", "ServiceAccount"),
    ("/api/v1", "services", "Service"),
    ("/apis/apps/v1", "deployments", "Deployment"),
    ("/apis/apps/v1", "replicasets", "ReplicaSet"),
    ("/apis/networking.k8s.io/v1", "networkpolicies", "NetworkPolicy"),
    ("/apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding"),
    ("/apis/rbac.authorization.k8s.io/v1", "roles", "Role"),
    (GROUP, "inferencepools", "InferencePool"),
    (GROUP, "poolroles", "PoolRole"),
)


def eventually(check, *, within_s=120.0, every_s=0.2):
    """Poll until `check` returns something true; its last failure or value is the error."""
    deadline = time.monotonic() + within_s
    while True:
        fault = None
        try:
            value = check()
            if value:
                return value
            fault = repr(value)
        except (AssertionError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
            fault = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {fault}")
        time.sleep(every_s)


def settled(pool, *, quiet_s=8.0, within_s=240.0):
    """Return the namespace's resource versions once none of them has changed for a while."""
    deadline = time.monotonic() + within_s
    seen, since = None, time.monotonic()
    while time.monotonic() - since < quiet_s:
        now = pool.versions()
        if now != seen:
            seen, since = now, time.monotonic()
        assert time.monotonic() < deadline, "it never comes to rest"
        time.sleep(1.0)
    return seen


def install_crd(plane):
    plane.run_kubectl("apply", "--server-side", "-f", str(CRDS))
    for plural in ("inferencepools", "poolroles"):
        eventually(lambda plural=plural: "items" in plane.request("GET", f"{GROUP}/{plural}"))


class Operator:
    """One `tandem-operator` process."""

    def __init__(self, kubeconfig, log_path, *words):
        self.health_port, self.metrics_port = free_port(), free_port()
        self.log_path = log_path
        self._log = log_path.open("ab")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tandem_operator"),
                *("--health-port", str(self.health_port)),
                *("--metrics-port", str(self.metrics_port)),
                *words,
            ],
            env={
                **{k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")},
                "KUBECONFIG": str(kubeconfig),
                "TANDEM_ROUTER_IMAGE": "tandem/router:test",
                "TANDEM_LAUNCHER_IMAGE": "tandem/launcher:test",
                "TANDEM_ENGINE_CPU_IMAGE": "tandem/engine-cpu:test",
                "TANDEM_ENGINE_GPU_IMAGE": "tandem/engine-gpu:test",
            },
            stdout=self._log,
            stderr=self._log,
        )

    def log(self):
        return self.log_path.read_text(errors="replace")

    def metrics(self):
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
            return answer.read().decode()

    def probe(self, path):
        url = f"http://127.0.0.1:{self.health_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def rss_mib(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("the operator is gone")

    def stop(self, with_signal=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        code = self.process.wait(timeout=ENDS_WITHIN_S)
        self._log.close()
        return code


@contextlib.contextmanager
def operator(kubeconfig, log_path, *words):
    """Run an operator, and kill it at the end if it still runs. A failed test shows its log."""
    running = Operator(kubeconfig, log_path, *words)
    try:
        yield running
    finally:
        running.stop(signal.SIGKILL)
        sys.stderr.write(running.log())


@contextlib.contextmanager
def node(plane, name="node-1"):
    """Make a node and the Lease of a live one: pods of other nodes are deleted or not ready."""
    nodes, leases = (
        "/api/v1/nodes",
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
    )
    plane.request("POST", nodes, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40},
    }
    stop = threading.Event()

    def beat():
        while True:
            now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            with contextlib.suppress(RuntimeError, OSError):
                found = plane.request("GET", f"{nodes}/{name}")
                ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now[:19] + "Z"}
                found["status"]["conditions"] = [ready]
                plane.request("PUT", f"{nodes}/{name}/status", found)
                lease["spec"]["renewTime"] = now
                try:
                    plane.request("PUT", f"{leases}/{name}", lease)
                except RuntimeError:
                    plane.request("POST", leases, lease)
            if stop.wait(5.0):
                return

    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        yield name
    finally:
        stop.set()
        beating.join()
        plane.request("DELETE", f"{nodes}/{name}")


def rights_role(name, rights):
    """Return a ClusterRole of exactly these rights."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [
            {"apiGroups": [each.group], "resources": [each.resource], "verbs": list(each.verbs)}
            for each in rights
        ],
    }


class Pool:
    """One pool in a namespace, and views of it."""

    def __init__(self, plane, namespace, name="tiny"):
        self.plane, self.namespace, self.name = plane, namespace, name
        self.path = f"{GROUP}/namespaces/{namespace}/inferencepools/{name}"

    def manifest(self, **changes):
        """Return the demo's pool with some parts of its spec changed."""
        body = yaml.safe_load(SAMPLE.read_text())
        body["metadata"] = {"name": self.name, "namespace": self.namespace}
        for part, fields in changes.items():
            body["spec"][part] = {**body["spec"].get(part, {}), **fields}
        return json.dumps(body)

    def apply(self, **changes):
        """Apply such a manifest."""
        stdin = self.manifest(**changes)
        self.plane.run_kubectl("apply", "--server-side", "-f", "-", stdin=stdin)

    def replace_source(self, source):
        """Have the model come from elsewhere."""
        edit = [{"op": "replace", "path": "/spec/model/source", "value": source}]
        self.kubectl("patch", "ipool", self.name, "--type=json", "-p", json.dumps(edit))

    def get(self):
        return self.plane.request("GET", self.path)

    def delete(self):
        self.plane.request("DELETE", self.path)

    def condition(self, kind):
        for each in self.get().get("status", {}).get("conditions", []):
            if each["type"] == kind:
                return each
        return {}

    @property
    def _deployments(self):
        return f"/apis/apps/v1/namespaces/{self.namespace}/deployments"

    def deployment(self, component):
        return self.plane.request("GET", f"{self._deployments}/{self.name}-{component}")

    def deployments_version(self):
        """Return the resourceVersion from which on `counts_since` tells what changes."""
        return self.plane.request("GET", self._deployments)["metadata"]["resourceVersion"]

    def counts_since(self, version):
        """Name and replicas of each change of a Deployment, in the order of the API server.

        A watch that ends before it has told all that was there when it began is begun anew.
        """
        watch = f"{self._deployments}?watch=1&timeoutSeconds=2&resourceVersion={version}"
        newest = {
            each["metadata"]["name"]: int(each["metadata"]["resourceVersion"])
            for each in self.plane.request("GET", self._deployments)["items"]
        }

        def told():
            lines = self.kubectl("get", "--raw", watch).splitlines()
            found = [json.loads(line)["object"] for line in lines]
            seen = {
                each["metadata"]["name"]: int(each["metadata"]["resourceVersion"]) for each in found
            }
            missed = [
                name
                for name, changed in newest.items()
                if changed > max(int(version), seen.get(name, 0))
            ]
            assert missed == []
            return found, True

        found, _ = eventually(told)
        return [(each["metadata"]["name"], each["spec"]["replicas"]) for each in found]

    def replicas(self, component):
        return self.deployment(component)["spec"]["replicas"]

    def kubectl(self, *words, stdin=None):
        return self.plane.run_kubectl("-n", self.namespace, *words, stdin=stdin)

    def scale(self, component, replicas):
        self.kubectl("scale", f"deployment/{self.name}-{component}", f"--replicas={replicas}")

    def events(self):
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        found = self.plane.request("GET", path)["items"]
        own = {"kind": "InferencePool", "name": self.name}
        return [each for each in found if own.items() <= each["regarding"].items()]

    def objects(self):
        """Return the pool and its objects in the namespace, by kind and name.

        It asks without kubectl: tests that wait ask several times a second.
        """
        found = {}
        for group, plural, kind in LISTED:
            path = f"{group}/namespaces/{self.namespace}/{plural}"
            for item in self.plane.request("GET", path)["items"]:
                found[kind, item["metadata"]["name"]] = {"kind": kind, **item}
        return found

    def is_carried_out(self):
        """Return whether the cluster's own controllers have acted on all children."""
        objects = self.objects()
        wanted = {
            name: each["spec"]["replicas"]
            for (kind, name), each in objects.items()
            if kind == "Deployment"
        }
        told = {"Deployment": "updatedReplicas", "PodDisruptionBudget": "expectedPods"}
        done = [
            each["status"].get("observedGeneration") == each["metadata"]["generation"]
            and each["status"].get(told[kind]) == wanted[name]
            for (kind, name), each in objects.items()
            if kind in told
        ]
        sets = [each for (kind, _), each in objects.items() if kind == "ReplicaSet"]
        done += [each["status"].get("replicas") == each["spec"]["replicas"] for each in sets]
        pods = sum(kind == "Pod" for kind, _ in objects)
        return all(done) and len(sets) == len(wanted) and pods == sum(wanted.values())

    def objects_of_kind(self, kind):
        """Return how many objects of a kind the namespace holds."""
        return sum(1 for found, _ in self.objects() if found == kind)

    def versions(self):
        """Return the resourceVersion of everything in the namespace that could change."""
        return {key: each["metadata"]["resourceVersion"] for key, each in self.objects().items()}

    def make_pods_ready(self, *, host="127.0.0.1", node="node-1"):
        """Show the pods that exist as a kubelet would show them: on a node, started and Ready."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        for pod in self.plane.request("GET", pods)["items"]:
            conditions = pod["status"].get("conditions") or []
            if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
                continue
            name = pod["metadata"]["name"]
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"kind": "Node", "name": node},
            }
            if not pod["spec"].get("nodeName"):
                self.plane.request("POST", f"{pods}/{name}/binding", binding)
            status = {
                "phase": "Running",
                "podIP": host,
                "podIPs": [{"ip": host}],
                "startTime": now,
                "conditions": [
                    {"type": kind, "status": "True", "lastTransitionTime": now}
                    for kind in ("PodScheduled", "ContainersReady", "Ready")
                ],
            }
            self._show(f"{pods}/{name}", status)

    def _show(self, pod, status):
        """Write a part of a pod's status, anew if another client wrote the pod meanwhile."""
        while True:
            found = self.plane.request("GET", pod)
            found["status"] |= status
            try:
                self.plane.request("PUT", f"{pod}/status", found)
            except RuntimeError as error:
                if ": 409 " not in str(error):
                    raise
            else:
                return

    def pods_on(self, node):
        """Return the names of the pods on a node that are not told to go."""
        found = self.plane.request("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return sorted(
            pod["metadata"]["name"]
            for pod in found
            if pod["spec"].get("nodeName") == node and not pod["metadata"].get("deletionTimestamp")
        )

    def evict(self, pod):
        """Ask for a pod's eviction, as `kubectl drain` does; the API server's status code."""
        where = {"name": pod, "namespace": self.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": where}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        try:
            self.plane.request("POST", path, body)
        except RuntimeError as error:
            return 429 if "disruption budget" in str(error) else str(error)
        return 201

    def budgets(self):
        """Return how many pods of each component may be away, as far as the controller knows."""
        return {
            name.removeprefix(f"{self.name}-"): each["spec"]["maxUnavailable"]
            for (kind, name), each in self.objects().items()
            if kind == "PodDisruptionBudget"
            and each.get("status", {}).get("observedGeneration") == each["metadata"]["generation"]
        }

    def lose_readiness(self, component, *, ran_s=600):
        """Show a component's Ready pods as NotReady from now on, their processes as they ran."""
        stamps = [time.gmtime(time.time() - ago_s) for ago_s in (ran_s, 0)]
        started, now = (time.strftime("%Y-%m-%dT%H:%M:%SZ", stamp) for stamp in stamps)
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        for pod in self.plane.request("GET", pods)["items"]:
            name = pod["metadata"]["name"]
            if not name.startswith(f"{self.name}-{component}-"):
                continue
            conditions = pod["status"]["conditions"]
            for each in conditions:
                if each["type"] in ("Ready", "ContainersReady"):
                    each |= {"status": "False", "lastTransitionTime": now}
            containers = [
                {
                    "name": component,
                    "image": "r",
                    "imageID": "r",
                    "ready": False,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": started}},
                }
            ]
            self._show(
                f"{pods}/{name}", {"conditions": conditions, "containerStatuses": containers}
            )
