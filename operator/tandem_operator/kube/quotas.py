"""The sharing of a namespace's GPUs: its quotas as read, and the last claim of each pool.

Pools that ask for another resource, such as another slice of a GPU, share nothing with each other.

This process keeps the claims in memory only. After a start, a pool's neighbours count by their pods
until their first pass. This leaves them what they have.
"""

import logging
from collections.abc import Callable

from tandem_operator.core.quota.allocate import Claim
from tandem_operator.core.quota.share import Quota
from tandem_operator.kube.client import ApiServerError, Kube
from tandem_operator.kube.kinds import POD, RESOURCE_QUOTA
from tandem_operator.workloads.observed.quota import NamespaceGpus, gpus_by_pool, hard_gpus

log = logging.getLogger(__name__)

READ_FOR_S = 4.0


class Sharing:
    """The quotas and claims of all namespaces; one reading serves a tick of all pools there."""

    def __init__(self, kube: Kube, *, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._clock = clock
        self._read: dict[tuple[str, str], tuple[float, NamespaceGpus | None]] = {}
        self._claims: dict[tuple[str, str], dict[str, Claim]] = {}
        self._forbidden: set[str] = set()

    async def gpus(self, namespace: str, resource: str) -> NamespaceGpus | None:
        """Return the namespace's GPUs of a resource; `None` if no quota limits them."""
        known = self._read.get((namespace, resource))
        if known is not None and self._clock() < known[0] + READ_FOR_S:
            return known[1]
        started_s = self._clock()
        # Users choose the names of resources: old entries must go.
        self._read = {
            key: read for key, read in self._read.items() if started_s < read[0] + READ_FOR_S
        }
        found = await self._list(namespace, resource)
        self._read[namespace, resource] = (started_s, found)
        return found

    def quota(self, namespace: str, pool: str, *, gpus: NamespaceGpus | None) -> Quota | None:
        """Return the quota that the pool shares with its neighbours now."""
        if gpus is None:
            return None
        return gpus.seen_by(pool, self._claims.get((namespace, gpus.resource), {}))

    def note(
        self, namespace: str, pool: str, *, claim: Claim | None, resource: str | None = None
    ) -> None:
        """Record a pool's claim on a resource, or that it no longer has one."""
        for key, claims in list(self._claims.items()):
            if key[0] == namespace and claims.pop(pool, None) is not None and not claims:
                del self._claims[key]
        if claim is not None and resource is not None:
            self._claims.setdefault((namespace, resource), {})[pool] = claim

    async def _list(self, namespace: str, resource: str) -> NamespaceGpus | None:
        try:
            quotas = await self._kube.list(RESOURCE_QUOTA, namespace=namespace)
        except ApiServerError as error:
            if error.status != 403:
                raise
            # An older installation lacks the rights: the API server still refuses an excess.
            if namespace not in self._forbidden:
                self._forbidden.add(namespace)
                log.warning("quotas not read", extra={"namespace": namespace, "why": error.message})
            return None
        hard = hard_gpus(quotas, resource)
        if hard is None:
            return None
        pods = await self._kube.list(POD, namespace=namespace)
        return NamespaceGpus(resource=resource, hard=hard, used=gpus_by_pool(pods, resource))
