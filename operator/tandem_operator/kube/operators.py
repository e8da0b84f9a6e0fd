"""The choice of the operator that runs a pool: the status names it, and its Lease is alive.

A cluster-wide and a namespaced operator hold different Leases, so neither waits for the other. Both
would write every pool that both see. So the first one puts its Lease into the pool's status. Every
other operator only watches until that Lease is no longer renewed.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from tandem_operator.kube.apply import refusal_of
from tandem_operator.kube.client import ApiServerError, Kube, Object
from tandem_operator.kube.kinds import LEASE, POOL
from tandem_operator.kube.status_writer import STATUS_MANAGER

log = logging.getLogger(__name__)

GONE_AFTER_S = 60.0
"""Age of a Lease whose operator is gone: longer than a standby's takeover or a single restart."""
LOOK_EVERY_S = 5.0

_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
# The name comes from a status, and becomes part of a path.
_LEASE = re.compile(rf"({_NAME})/({_NAME})")


@dataclass(slots=True)
class _Seen:
    """A Lease of another operator, and the times of the last look and of its last change."""

    spec: Any
    changed_at_s: float
    looked_at_s: float


class Operators:
    """The register of the operators of pools; it claims pools without an operator.

    Args:
        kube: the API server.
        own: this operator's Lease as NAMESPACE/NAME; `None`: it has none, and claims nothing.
        clock: monotonic seconds.
    """

    def __init__(self, kube: Kube, *, own: str | None, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._own = own
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._unclaimable: set[str] = set()

    async def other(self, pool: Object) -> str | None:
        """Return the Lease of another live operator that runs the pool."""
        named = _named(pool)
        if named is None or named == self._own:
            return None
        return named if await self._is_alive(named) else None

    async def claim(self, pool: Object) -> Object | None:
        """Name this operator in the pool's status; return `None` if another operator was first."""
        metadata = pool["metadata"]
        if _named(pool) == self._own or metadata["uid"] in self._unclaimable:
            return pool
        status = {**(pool.get("status") or {}), "operator": self._own}
        if self._own is None:
            del status["operator"]
        # If two operators read the pool without an operator, the second one's write fails.
        body = POOL.head_of(pool, also=("resourceVersion",)) | {"status": status}
        try:
            return await self._kube.apply(
                POOL, body, manager=STATUS_MANAGER, force=True, subresource="status"
            )
        except ApiServerError as error:
            # Another operator was quicker, or the pool is gone.
            if error.status in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
                return None
            why = refusal_of(error)
            if why is None:
                raise
            # The CRD of an older version has no such field, and serves as well.
            self._unclaimable.add(metadata["uid"])
            log.warning(
                "pool not claimed",
                extra={"namespace": metadata["namespace"], "pool": metadata["name"], "why": why},
            )
            return pool

    def forget(self, uid: str) -> None:
        """Drop what is remembered of a pool that is gone."""
        self._unclaimable.discard(uid)

    async def _is_alive(self, named: str) -> bool:
        now_s = self._clock()
        seen = self._seen.get(named)
        if seen is None or now_s - seen.looked_at_s >= LOOK_EVERY_S:
            spec = await self._read(named)
            unchanged_s = now_s if seen is None or spec != seen.spec else seen.changed_at_s
            # A pool's status may hold many names over time.
            self._seen = {
                each: known
                for each, known in self._seen.items()
                if now_s - known.looked_at_s < GONE_AFTER_S
            }
            seen = self._seen[named] = _Seen(spec, unchanged_s, now_s)
        return now_s - seen.changed_at_s < GONE_AFTER_S

    async def _read(self, named: str) -> Any:
        """Return the content of the Lease; `None` if there is none, or no right to read it."""
        namespace, _, name = named.partition("/")
        try:
            found = await self._kube.get(LEASE, namespace=namespace, name=name)
        except ApiServerError as error:
            # If an operator was removed, the right to read its Lease is gone, too.
            if error.status == HTTPStatus.FORBIDDEN:
                return None
            raise
        return None if found is None else found.get("spec")


def _named(pool: Object) -> str | None:
    """Return the Lease that a pool's status names."""
    named = str((pool.get("status") or {}).get("operator") or "")
    return named if _LEASE.fullmatch(named) else None
