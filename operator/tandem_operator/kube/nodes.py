"""The nodes that are being drained: those that are cordoned, as `kubectl drain` does first."""

import logging
from collections.abc import Callable

from tandem_operator.kube.client import ApiServerError, Kube
from tandem_operator.kube.kinds import NODE

log = logging.getLogger(__name__)

READ_FOR_S = 4.0
FORBIDDEN_FOR_S = 60.0


class Cordons:
    """The cordoned nodes for all pools: one reading serves a tick of all of them."""

    def __init__(self, kube: Kube, *, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._clock = clock
        self._until_s = 0.0
        self._names: frozenset[str] | None = None
        self._warned = False

    async def names(self) -> frozenset[str] | None:
        """Return the cordoned nodes; `None` without the right to list them."""
        now_s = self._clock()
        if now_s >= self._until_s:
            self._names = await self._read()
            self._until_s = now_s + (FORBIDDEN_FOR_S if self._names is None else READ_FOR_S)
        return self._names

    async def _read(self) -> frozenset[str] | None:
        try:
            # Out of thousands of nodes, the API server returns only these few.
            found = await self._kube.list(NODE, namespace=None, fields="spec.unschedulable=true")
        except ApiServerError as error:
            if error.status != 403:
                raise
            if not self._warned:
                self._warned = True
                log.warning("nodes not read", extra={"why": error.message})
            return None
        return frozenset(node["metadata"]["name"] for node in found)
