"""A pool on kind, looked at once a second while something is done to it."""

import contextlib
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import requests
from kubernetes import client, config

from e2e.cluster import names
from e2e.faults.evidence import Moment, Said
from e2e.pools import LABEL, Pool
from tandem_operator.core.role import Role

EVERY_S = 1.0
_POOLS = "/apis/tandem-inference.io/v1alpha1/namespaces"


class Watch:
    """A thread that looks; `moments` and `said` grow until the block ends.

    An API server that does not answer leaves a gap: nothing is known of that time.
    """

    def __init__(self, pool: Pool, *, counts: dict[str, int]) -> None:
        self.moments: list[Moment] = []
        self.said: list[Said] = []
        self._pool = pool
        self._counts = counts
        self._known: set[str] = set()
        self._stop = threading.Event()
        self._server, self._session = _connection()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        """Start to look. Sentences of the first look count as said before."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self._stop.set()
        self._thread.join(30.0)

    def wait_whole(self, *, within_s: float, for_s: float = 5.0) -> bool:
        """Wait until the pool has been whole for a few seconds."""
        deadline_s = time.time() + within_s
        while time.time() < deadline_s:
            recent = [m for m in list(self.moments) if m.at_s >= time.time() - for_s - EVERY_S]
            if len(recent) > 2 and all(moment.whole for moment in recent):
                return True
            self._stop.wait(EVERY_S)
        return False

    def _run(self) -> None:
        while not self._stop.is_set():
            started_s = time.time()
            with contextlib.suppress(requests.RequestException, KeyError):
                self._look(started_s)
            self._stop.wait(max(0.1, EVERY_S - (time.time() - started_s)))

    def _get(self, path: str, **query: str) -> dict[str, Any]:
        answer = self._session.get(self._server + path, params=query, timeout=5.0)
        answer.raise_for_status()
        return dict(answer.json())

    def _look(self, now_s: float) -> None:
        namespace, name = self._pool.namespace, self._pool.name
        pool = self._get(f"{_POOLS}/{namespace}/inferencepools/{name}")
        label = f"{LABEL}/pool={name}"
        pods = self._get(f"/api/v1/namespaces/{namespace}/pods", labelSelector=label)["items"]
        deployments = self._get(
            f"/apis/apps/v1/namespaces/{namespace}/deployments", labelSelector=label
        )["items"]
        events = self._get(
            f"/api/v1/namespaces/{namespace}/events",
            fieldSelector=f"involvedObject.name={name}",
        )["items"]
        self._hear(pool, events, now_s)
        status = pool.get("status", {})
        asked = {
            role: each["spec"].get("replicas", 1)
            for role in Role
            for each in deployments
            if each["metadata"]["name"] == f"{name}-{role}"
        }
        self.moments.append(
            Moment(
                at_s=now_s,
                asked=asked,
                gpus=sum(_holds_node(pod) for pod in pods if _role(pod) in set(Role)),
                blind=any(
                    each["type"] == "MetricsFresh" and each["status"] == "False"
                    for each in status.get("conditions", ())
                ),
                whole=all(
                    _is_whole([pod for pod in pods if _role(pod) == role], count)
                    for role, count in self._counts.items()
                ),
            )
        )

    def _hear(self, pool: dict[str, Any], events: list[dict[str, Any]], now_s: float) -> None:
        for text in _sentences(pool, events):
            if text not in self._known:
                self._known.add(text)
                if self.moments:
                    self.said.append(Said(now_s, text))


def _connection() -> tuple[str, requests.Session]:
    """Return the cluster's API server, and a session that may ask it."""
    found = client.Configuration()
    config.load_kube_config(config_file=str(names.KUBECONFIG), client_configuration=found)
    session = requests.Session()
    session.trust_env = False
    session.verify = found.ssl_ca_cert
    session.cert = (found.cert_file, found.key_file)
    return str(found.host), session


def _sentences(pool: dict[str, Any], events: list[dict[str, Any]]) -> Iterator[str]:
    status = pool.get("status", {})
    for each in status.get("conditions", ()):
        yield f"{each['type']}={each['status']}: {each['message']}"
    if reason := status.get("decision", {}).get("reason"):
        yield f"decision: {reason}"
    for event in events:
        yield f"{event['reason']}: {event['message']}"


def _role(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"].get(f"{LABEL}/role", ""))


def _holds_node(pod: dict[str, Any]) -> bool:
    bound = "nodeName" in pod["spec"]
    return bound and pod["status"].get("phase") not in ("Succeeded", "Failed")


def _is_whole(pods: list[dict[str, Any]], count: int) -> bool:
    return len(pods) == count and all(
        "deletionTimestamp" not in pod["metadata"]
        and any(
            each["type"] == "Ready" and each["status"] == "True"
            for each in pod["status"].get("conditions", ())
        )
        for pod in pods
    )
