"""Looks at the demo's pool every second, as any user of the API server could."""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kubernetes.aio import client, config

from e2e.demo.story import Fleet, Sight
from tandem_operator.core.role import Role

GROUP, VERSION, PLURAL = "tandem-inference.io", "v1alpha1", "inferencepools"
LOOK_EVERY_S = 1.0


class PoolWatch:
    """An async context that remembers every sight of one pool."""

    def __init__(
        self,
        *,
        namespace: str,
        pool: str,
        kubeconfig: Path,
        on_sight: Callable[[Sight], None] | None = None,
    ) -> None:
        self.sights: list[Sight] = []
        self._namespace = namespace
        self._pool = pool
        self._kubeconfig = kubeconfig
        self._on_sight = on_sight
        self._api: client.ApiClient | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Connect, take the first look, and go on looking in the background."""
        settings = client.Configuration()
        await config.load_kube_config(str(self._kubeconfig), client_configuration=settings)
        self._api = client.ApiClient(settings)
        await self._look()
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._api is not None:
            await self._api.close()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self._look()
            except (client.ApiException, OSError, TimeoutError):
                # The next look comes in a second; a gap shows in the report as a longer step.
                continue

    async def _look(self) -> None:
        objects = client.CustomObjectsApi(self._api)
        deployments = await client.AppsV1Api(self._api).list_namespaced_deployment(
            self._namespace, label_selector=f"tandem-inference.io/pool={self._pool}"
        )
        pool = await objects.get_namespaced_custom_object(
            GROUP, VERSION, self._namespace, PLURAL, self._pool
        )
        by_name = {item.metadata.name: item for item in deployments.items}
        fleets = {role: _fleet(by_name.get(f"{self._pool}-{role}")) for role in Role}
        sight = Sight(at_s=time.time(), fleets=fleets, sentence=_sentence(pool))
        self.sights.append(sight)
        if self._on_sight is not None:
            self._on_sight(sight)


def _fleet(deployment: Any) -> Fleet:
    if deployment is None:
        return Fleet(desired=0, ready=0)
    return Fleet(desired=deployment.spec.replicas, ready=deployment.status.ready_replicas or 0)


def _sentence(pool: Mapping[str, Any]) -> str:
    decision = pool.get("status", {}).get("decision", {})
    return str(decision.get("reason", "none yet"))
