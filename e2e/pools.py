"""One pool on the cluster, looked at from outside: its pods, its settings, its metrics."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import requests
from prometheus_client.parser import text_string_to_metric_families

from e2e.commands import CommandError, kubectl, kubectl_json
from tandem_operator.core.role import Role

KIND = "inferencepools.tandem-inference.io"
LABEL = "tandem-inference.io"

Seen = TypeVar("Seen")


class NotInTimeError(AssertionError):
    """An expected event did not happen within its time."""


def wait_until(look: Callable[[], Seen | None], *, within_s: float, what: str) -> Seen:
    """Look twice a second until there is a result, and return it."""
    deadline = time.monotonic() + within_s
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise NotInTimeError(f"not within {within_s:g} s: {what}")
        time.sleep(0.5)


def wait_for_door(url: str, *, path: str = "/ready", within_s: float = 120.0) -> None:
    """Wait until the node passes a port on to a pod: that follows the pod's readiness."""

    def answers() -> bool:
        try:
            return requests.get(f"{url}{path}", timeout=5.0).ok
        except requests.RequestException:
            return False

    wait_until(answers, within_s=within_s, what=f"an answer from {url}")


@dataclass(frozen=True, slots=True)
class PodFace:
    """The signs that a pod is still the same one and never restarted."""

    name: str
    uid: str
    restarts: int
    ready: bool


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool by its namespace and name."""

    namespace: str
    name: str

    def read(self) -> dict[str, Any]:
        """Return the object as it is."""
        return kubectl_json("get", KIND, self.name, "-n", self.namespace)

    def is_observed(self) -> bool:
        """Return whether the status belongs to the present spec."""
        found = self.read()
        return bool(found["status"]["observedGeneration"] == found["metadata"]["generation"])

    def condition(self, kind: str) -> dict[str, Any]:
        """Return one condition of its status; empty while it is not there."""
        conditions = self.read().get("status", {}).get("conditions", ())
        return next((each for each in conditions if each["type"] == kind), {})

    def wait_ready(self, *, within_s: float = 240.0) -> None:
        """Wait the way a user does."""
        kubectl(
            *("wait", f"{KIND}/{self.name}", "-n", self.namespace),
            *("--for=condition=Ready", f"--timeout={within_s:g}s"),
            timeout_s=within_s + 10.0,
        )

    def pods(self, role: str | Role) -> list[PodFace]:
        """Return its pods of one role that are not on their way out, by name."""
        selector = f"{LABEL}/pool={self.name},{LABEL}/role={role}"
        items = kubectl_json("get", "pods", "-n", self.namespace, "-l", selector)["items"]
        return sorted(
            (_face(item) for item in items if "deletionTimestamp" not in item["metadata"]),
            key=lambda face: face.name,
        )

    def all_pods(self) -> list[PodFace]:
        """Return the router and engine pods."""
        return [face for role in (*Role, "router") for face in self.pods(role)]

    def is_whole(self, *, counts: dict[str, int]) -> bool:
        """Return whether exactly so many pods of each role are there and Ready."""
        return all(
            len(faces := self.pods(role)) == count and all(face.ready for face in faces)
            for role, count in counts.items()
        )

    def router_settings(self) -> dict[str, Any]:
        """Return the settings that its routers got."""
        config = kubectl_json("get", "configmap", f"{self.name}-router", "-n", self.namespace)
        return dict(json.loads(config["data"]["router.json"]))

    def metric(self, pod: str, *, port: int, name: str, **labels: str) -> float | None:
        """Return the sum of one metric's samples in one pod; `None` if it has none."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}:{port}/proxy/metrics"
        values = [
            sample.value
            for family in text_string_to_metric_families(kubectl("get", "--raw", path))
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(values) if values else None

    def patch(self, spec: dict[str, Any]) -> str:
        """Merge into its spec."""
        body = json.dumps({"spec": spec})
        return kubectl("patch", KIND, self.name, "-n", self.namespace, "--type=merge", "-p", body)

    def children(self) -> dict[str, list[str]]:
        """Return the names of everything in the namespace that carries its label, by kind."""
        kinds = (
            "deployments,replicasets,pods,services,serviceaccounts,configmaps,"
            "roles,rolebindings,poddisruptionbudgets"
        )
        selector = f"{LABEL}/pool={self.name}"
        found: dict[str, list[str]] = {}
        for item in kubectl_json("get", kinds, "-n", self.namespace, "-l", selector)["items"]:
            found.setdefault(item["kind"], []).append(item["metadata"]["name"])
        return found

    def exists(self) -> bool:
        """Return whether the API server still knows it."""
        try:
            self.read()
        except CommandError:
            return False
        return True


def _face(item: dict[str, Any]) -> PodFace:
    statuses = item["status"].get("containerStatuses", ())
    conditions = item["status"].get("conditions", ())
    return PodFace(
        name=item["metadata"]["name"],
        uid=item["metadata"]["uid"],
        restarts=sum(status["restartCount"] for status in statuses),
        ready=any(each["type"] == "Ready" and each["status"] == "True" for each in conditions),
    )
