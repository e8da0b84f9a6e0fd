"""Settings, endpoints and other routers from the Kubernetes API: pods and one ConfigMap."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from tandem_contracts.names import (
    HTTP_PORT,
    POOL_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    ROUTER_INTERNAL_PORT,
    SETTINGS_KEY,
)
from tandem_engine.router.discovery.list_and_watch import ApiServer, Listeners, ObjectWatch
from tandem_engine.router.discovery.owners import ROUTER, Owners
from tandem_engine.router.peers.telling import Peer, Peers
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.pod import Endpoint, Role
from tandem_engine.router.settings_in_force import SettingsError, SettingsHolder

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

logger = logging.getLogger(__name__)


def in_cluster_server(environment: Mapping[str, str] = os.environ) -> ApiServer:
    """Return the API server of the cluster this process runs in."""
    try:
        host = environment["KUBERNETES_SERVICE_HOST"]
        port = environment["KUBERNETES_SERVICE_PORT"]
    except KeyError as error:
        raise SettingsError(
            f"not in a cluster ({error.args[0]} is not set): use --settings FILE --endpoints FILE"
        ) from error
    host = f"[{host}]" if ":" in host else host
    return ApiServer(f"https://{host}:{port}", _ACCOUNT / "token", _ACCOUNT / "ca.crt")


def own_namespace() -> str | None:
    """Return the namespace of this pod's service account."""
    try:
        return (_ACCOUNT / "namespace").read_text(encoding="ascii").strip()
    except OSError:
        return None


def endpoint_of(pod: Mapping[str, Any]) -> Endpoint | None:
    """Return a pod as an endpoint; `None` for a pod without engine role or address."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    labels = metadata.get("labels") or {}
    role, address = labels.get(ROLE_LABEL), status.get("podIP")
    if role not in tuple(Role) or not address:
        return None
    ended = _has_ended(status)
    return Endpoint(
        name=metadata["name"],
        role=Role(role),
        host=address,
        port=HTTP_PORT,
        revision=labels.get(REVISION_LABEL, ""),
        ready=not ended and _is_ready(status),
        leaving=ended or metadata.get("deletionTimestamp") is not None,
        restarts=sum(each.get("restartCount", 0) for each in status.get("containerStatuses") or ()),
    )


def peer_of(pod: Mapping[str, Any]) -> Peer | None:
    """Return a pod as another router; a terminating router counts, because it still serves."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    address = status.get("podIP")
    is_router = (metadata.get("labels") or {}).get(ROLE_LABEL) == ROUTER
    if not is_router or not address or _has_ended(status):
        return None
    return Peer(metadata["name"], address, ROUTER_INTERNAL_PORT, ready=_is_ready(status))


def _has_ended(status: Mapping[str, Any]) -> bool:
    return status.get("phase") in ("Succeeded", "Failed")


def _part(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the needed part of a pod; its spec, which is most of it, is dropped."""
    metadata = pod["metadata"]
    names = ("name", "labels", "ownerReferences", "deletionTimestamp")
    return {
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "status": pod.get("status"),
    }


def _is_ready(status: Mapping[str, Any]) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )


class ClusterSource:
    """Updates fleet and settings from the API server."""

    def __init__(
        self,
        *,
        session: aiohttp.ClientSession,
        server: ApiServer,
        namespace: str,
        pool: str,
        settings: SettingsHolder,
        fleet: EnginePods,
        peers: Peers,
    ) -> None:
        self._settings = settings
        self._peers = peers
        self._fleet = fleet
        self._owners = Owners(pool)
        self._pods: dict[str, dict[str, Any]] | None = None
        base = f"/api/v1/namespaces/{namespace}"
        self.watches = (
            ObjectWatch(
                session=session,
                server=server,
                path=f"{base}/pods",
                selector={"labelSelector": f"{POOL_LABEL}={pool}"},
                listeners=Listeners(self._pods_listed, self._pod_changed),
            ),
            ObjectWatch(
                session=session,
                server=server,
                path=f"/apis/apps/v1/namespaces/{namespace}/replicasets",
                selector={"labelSelector": f"{POOL_LABEL}={pool}"},
                listeners=Listeners(self._sets_listed, self._set_changed, self._sets_refused),
            ),
            ObjectWatch(
                session=session,
                server=server,
                path=f"{base}/configmaps",
                selector={"fieldSelector": f"metadata.name={pool}-router"},
                listeners=Listeners(self._settings_listed, self._settings_changed),
            ),
        )

    def _pods_listed(self, pods: list[dict[str, Any]]) -> None:
        self._pods = {pod["metadata"]["name"]: _part(pod) for pod in pods}
        self._take_all()

    def _pod_changed(self, kind: str, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        if self._pods is not None:
            self._pods.pop(name, None)
            if kind != "DELETED":
                self._pods[name] = _part(pod)
        if not self._owners.known:
            return
        self._take_peers()
        endpoint = None if kind == "DELETED" else self._own_endpoint(pod)
        if endpoint is None:
            self._fleet.remove(name)
        else:
            self._fleet.upsert(endpoint)

    def _sets_listed(self, sets: list[dict[str, Any]]) -> None:
        for replica_set in sets:
            self._owners.add(replica_set)
        self._owners.known = True
        self._take_all()

    def _set_changed(self, _: str, replica_set: dict[str, Any]) -> None:
        # Its status changes with each of its pods, and that is no news.
        if self._owners.add(replica_set):
            self._take_all()

    def _sets_refused(self) -> None:
        self._owners.refuse()
        self._take_all()

    def _take_all(self) -> None:
        """Add all pods of the pool, once pods and ReplicaSets are listed."""
        if self._pods is not None and self._owners.known:
            endpoints = map(self._own_endpoint, self._pods.values())
            self._fleet.replace(endpoint for endpoint in endpoints if endpoint is not None)
            self._take_peers()

    def _take_peers(self) -> None:
        found = ((peer_of(pod), pod) for pod in (self._pods or {}).values())
        self._peers.replace(
            peer for peer, pod in found if peer is not None and self._owners.own(pod, ROUTER)
        )

    def _own_endpoint(self, pod: Mapping[str, Any]) -> Endpoint | None:
        endpoint = endpoint_of(pod)
        if endpoint is None or not self._owners.own(pod, endpoint.role):
            return None
        return endpoint

    def _settings_listed(self, config_maps: list[dict[str, Any]]) -> None:
        for config_map in config_maps:
            self._settings_changed("ADDED", config_map)

    def _settings_changed(self, kind: str, config_map: dict[str, Any]) -> None:
        if kind == "DELETED":
            logger.warning("the settings ConfigMap is gone; the last settings stay in force")
            return
        text = (config_map.get("data") or {}).get(SETTINGS_KEY)
        try:
            if text is None:
                raise SettingsError(f"the settings ConfigMap has no key {SETTINGS_KEY}")
            changed = self._settings.take(text)
        except SettingsError as error:
            logger.error("kept the settings in force", extra={"why": str(error)})
            return
        if changed:
            self._fleet.announce()
