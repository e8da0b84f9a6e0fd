"""How pools share their namespace's GPUs: its quotas as read, and what each pool claimed last.

Claims are of this process alone. After a start a pool's neighbours count by their pods until their
first pass, which leaves them what they have.
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
    """One for all namespaces. What is read of one holds for a tick of all its pools."""

    def __init__(self, kube: Kube, *, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._clock = clock
        self._read: dict[str, tuple[float, NamespaceGpus | None]] = {}
        self._claims: dict[str, dict[str, Claim]] = {}
        self._forbidden: set[str] = set()

    async def gpus(self, namespace: str) -> NamespaceGpus | None:
        """The namespace's GPUs; `None` where no quota limits them."""
        known = self._read.get(namespace)
        if known is not None and self._clock() < known[0] + READ_FOR_S:
            return known[1]
        started_s = self._clock()
        found = await self._list(namespace)
        self._read[namespace] = (started_s, found)
        return found

    def quota(self, namespace: str, pool: str, *, gpus: NamespaceGpus | None) -> Quota | None:
        """What the pool shares with its neighbours as they are now."""
        return None if gpus is None else gpus.seen_by(pool, self._claims.get(namespace, {}))

    def note(self, namespace: str, pool: str, *, claim: Claim | None) -> None:
        """Take note of a pool's claim, or that it has none any more."""
        claims = self._claims.setdefault(namespace, {})
        claims.pop(pool, None)
        if claim is not None:
            claims[pool] = claim
        elif not claims:
            del self._claims[namespace]

    async def _list(self, namespace: str) -> NamespaceGpus | None:
        try:
            quotas = await self._kube.list(RESOURCE_QUOTA, namespace=namespace)
        except ApiServerError as error:
            if error.status != 403:
                raise
            # Rights of an older installation: the API server still refuses what is too much.
            if namespace not in self._forbidden:
                self._forbidden.add(namespace)
                log.warning("quotas not read", extra={"namespace": namespace, "why": error.message})
            return None
        hard = hard_gpus(quotas)
        if hard is None:
            return None
        pods = await self._kube.list(POD, namespace=namespace)
        return NamespaceGpus(hard=hard, used=gpus_by_pool(pods))
