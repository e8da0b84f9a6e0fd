"""A small asynchronous view of the Kubernetes API: plain dicts in and out, every call bounded.

The official client does configuration, credentials and transport. Its typed API classes are not
used: each takes about 20 MB of memory, and they validate answers that are only passed on.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
)

from tandem_operator.kube.kinds import POD, ResourceKind

Object = dict[str, Any]

REQUEST_TIMEOUT_S = 15.0
CHILD_MANAGER = "tandem"
USUAL_KUBECONFIG = "~/.kube/config"
SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
SERVICE_ACCOUNT_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


class ApiServerError(Exception):
    """An answer of the API server that is not success, with its `Status` object."""

    def __init__(self, status: int, body: Mapping[str, Any], request: str) -> None:
        self.status = status
        self.body = body
        self.reason = str(body.get("reason") or "")
        self.message = str(body.get("message") or f"HTTP {status}")
        super().__init__(f"{request}: {status} {self.reason}: {self.message}")


class WritesForbiddenError(Exception):
    """This process may not write now, because it does not hold the lease."""


class Kube:
    """A client for raw requests to one API server.

    Args:
        api: the official client, configured.
        timeout_s: limit of one call, connection included. The official default is 300 s.
        may_write: checked before each write; a process that lost its lease must not write again.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self._api = api
        self._timeout_s = timeout_s
        self.may_write = may_write

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()  # type: ignore[no-untyped-call]

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
        timeout_s: float | None = None,
    ) -> Object:
        """Return the answer to one call.

        Raises `ApiServerError` if the call fails, `TimeoutError` at the limit.
        """
        async with asyncio.timeout(timeout_s or self._timeout_s):
            prepared = await self._api.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
            )
            answer = await self._api.call_api(*prepared, _request_timeout=self._timeout_s)
            raw: bytes = await answer.read()  # type: ignore[no-untyped-call]
        parsed = _object(raw)
        if not 200 <= answer.status <= 299:
            raise ApiServerError(answer.status, parsed, f"{method} {path}")
        return parsed

    @contextlib.asynccontextmanager
    async def websocket(
        self, path: str, *, query: Mapping[str, str], protocol: str
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a connection upgraded to a WebSocket; raises `ApiServerError` if it is refused."""
        _, url, headers, *_ = await self._api.param_serialize(
            "GET", path, query_params=list(query.items()), auth_settings=["BearerToken"]
        )
        rest = self._api.rest_client
        if rest.pool_manager is None:
            rest.pool_manager = rest._create_pool_manager()
        configuration = rest.configuration
        try:
            async with asyncio.timeout(self._timeout_s):
                socket = await rest.pool_manager.ws_connect(
                    url,
                    headers=headers,
                    protocols=(protocol,),
                    proxy=configuration.proxy,
                    proxy_headers=configuration.proxy_headers,
                )
        except aiohttp.WSServerHandshakeError as error:
            refused = {"message": f"{path}: HTTP {error.status}"}
            raise ApiServerError(error.status, refused, f"GET {path}") from None
        try:
            yield socket
        finally:
            await socket.close()

    async def get(self, kind: ResourceKind, *, namespace: str, name: str) -> Object | None:
        """Return the object as it is now; `None` if there is none."""
        try:
            return await self.request("GET", kind.path(namespace=namespace, name=name))
        except ApiServerError as error:
            if error.status == 404:
                return None
            raise

    async def list(
        self,
        kind: ResourceKind,
        *,
        namespace: str | None,
        selector: str = "",
        fields: str = "",
        cached: bool = False,
    ) -> list[Object]:
        """Return all objects of a kind with these labels and fields; `None`: in all namespaces.

        `cached`: from the API server's memory. This spares its store, but can be a moment old.
        """
        version = "0" if cached else ""
        given = {"labelSelector": selector, "fieldSelector": fields, "resourceVersion": version}
        query = {name: value for name, value in given.items() if value}
        answer = await self.request("GET", kind.path(namespace=namespace), query=query)
        items: list[Object] = answer.get("items") or []
        for item in items:
            item.setdefault("apiVersion", kind.api_version)
            item.setdefault("kind", kind.kind)
        return items

    async def await_change(
        self, kind: ResourceKind, *, namespace: str, name: str, since: str, most_s: float
    ) -> None:
        """Return once an object is no longer of the version `since`, or after `most_s`."""
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={name}",
            "resourceVersion": since,
            "timeoutSeconds": str(round(most_s)),
        }
        prepared = await self._api.param_serialize(
            "GET",
            kind.path(namespace=namespace),
            query_params=list(query.items()),
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
        limit_s = most_s + self._timeout_s
        async with asyncio.timeout(limit_s):
            answer = await self._api.call_api(*prepared, _request_timeout=limit_s)
            if answer.status != 200:
                raw: bytes = await answer.read()  # type: ignore[no-untyped-call]
                raise ApiServerError(answer.status, _object(raw), f"WATCH {kind.plural}")
            try:
                # Every event is news, also the error of an expired version: the caller looks again.
                await answer.response.content.readany()
            finally:
                answer.response.close()

    async def apply(
        self,
        kind: ResourceKind,
        body: Object,
        *,
        manager: str,
        force: bool = False,
        dry_run: bool = False,
        subresource: str | None = None,
    ) -> Object:
        """Apply by server-side apply; a 409 `ApiServerError` means another manager's field."""
        metadata = body["metadata"]
        query = {"fieldManager": manager, "force": str(force).lower()}
        if dry_run:
            query["dryRun"] = "All"
        else:
            self._check_write()
        return await self.request(
            "PATCH",
            kind.path(
                namespace=metadata["namespace"], name=metadata["name"], subresource=subresource
            ),
            query=query,
            body=body,
            content_type="application/apply-patch+yaml",
        )

    async def merge(
        self, kind: ResourceKind, body: Object, *, namespace: str, name: str, manager: str
    ) -> Object:
        """Patch some fields by JSON merge patch."""
        self._check_write()
        return await self.request(
            "PATCH",
            kind.path(namespace=namespace, name=name),
            query={"fieldManager": manager},
            body=body,
            content_type="application/merge-patch+json",
        )

    async def annotate_pod(
        self, *, namespace: str, name: str, annotations: Mapping[str, str]
    ) -> None:
        """Set annotations of a pod, unless it is gone."""
        body: Object = {"metadata": {"annotations": dict(annotations)}}
        try:
            await self.merge(POD, body, namespace=namespace, name=name, manager=CHILD_MANAGER)
        except ApiServerError as error:
            if error.status != 404:
                raise

    async def create(
        self, kind: ResourceKind, body: Object, *, namespace: str, manager: str
    ) -> Object:
        """Create an object."""
        self._check_write()
        path = kind.path(namespace=namespace)
        return await self.request("POST", path, query={"fieldManager": manager}, body=body)

    async def delete(self, kind: ResourceKind, *, namespace: str, name: str, uid: str) -> None:
        """Delete only the object with this UID; it is no error if it is already gone."""
        self._check_write()
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        try:
            await self.request("DELETE", kind.path(namespace=namespace, name=name), body=body)
        except ApiServerError as error:
            if error.status not in {404, 409}:
                raise

    async def serves(self, kind: ResourceKind) -> bool:
        """Return whether the API server knows the kind now."""
        try:
            answer = await self.request("GET", kind.root)
        except ApiServerError as error:
            if error.status == 404:
                return False
            raise
        return any(each.get("name") == kind.plural for each in answer.get("resources") or [])

    def _check_write(self) -> None:
        if not self.may_write():
            raise WritesForbiddenError("This process does not hold the lease; nothing was written.")


def in_cluster() -> bool:
    """Return whether this process has a service account, and `$KUBECONFIG` names no cluster."""
    return "KUBECONFIG" not in os.environ and SERVICE_ACCOUNT_TOKEN.exists()


async def connect(*, config_file: str | None = None, context: str | None = None) -> Kube:
    """Return a client for a kubeconfig's cluster: the named one, `$KUBECONFIG`'s, or this pod's.

    Raises:
        ConfigException: no such file or context, no kubeconfig at all, or one without a cluster.
    """
    configuration = Configuration()
    if config_file is None and context is None and in_cluster():
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    else:
        with _kubeconfig(config_file) as path:
            await load_kube_config(  # type: ignore[no-untyped-call]
                config_file=path, context=context, client_configuration=configuration
            )
    configuration.client_side_validation = False
    return Kube(ApiClient(configuration))


def usual_namespace(config_file: str | None, context: str | None) -> str:
    """Return kubectl's default namespace: the context's, or this process's own in a cluster."""
    if config_file is None and context is None and in_cluster():
        return SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip()
    with _kubeconfig(config_file) as path:
        found, current = list_kube_config_contexts(path)  # type: ignore[no-untyped-call]
    chosen = next((each for each in found if each["name"] == context), current)
    return str((chosen or {}).get("context", {}).get("namespace") or "default")


@contextlib.contextmanager
def _kubeconfig(config_file: str | None) -> Iterator[str]:
    """Yield the chosen file; an error of its reader becomes one sentence with its name."""
    path = config_file or os.environ.get("KUBECONFIG") or USUAL_KUBECONFIG
    # The official reader logs its own line and continues with an empty configuration.
    if not any(Path(each).expanduser().exists() for each in path.split(os.pathsep) if each):
        raise ConfigException(
            f"{path} does not exist; name a kubeconfig that does, for example in $KUBECONFIG"
        )
    try:
        yield path
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, KeyError) as error:
        # The official reader parses whatever the file contains.
        raise ConfigException(
            f"{path} is not a kubeconfig; name one that `kubectl config view` shows contexts of"
        ) from error


def _object(raw: bytes) -> Object:
    try:
        parsed = json.loads(raw)
    except ValueError:
        return {"message": raw[:200].decode("utf-8", "replace")}
    return parsed if isinstance(parsed, dict) else {"value": parsed}
