"""The reader of a pool's children: each pass reads those that decisions depend on.

These are Deployments, a route (Gateways write its status), and PoolRoles of roles that another
owner sizes. Other children change only by an edit. They are read again after a watch event, after a
write of Tandem, and once a minute.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from tandem_contracts.names import POOL_LABEL
from tandem_operator.kube.apply import controller_uid
from tandem_operator.kube.client import ApiServerError, Kube, Object
from tandem_operator.kube.kinds import (
    CHILDREN,
    CLAIM,
    DEPLOYMENT,
    HTTP_ROUTE,
    OPTIONAL,
    POOL_ROLE,
    ResourceKind,
)
from tandem_operator.workloads.pool_names import key_of

log = logging.getLogger(__name__)

STATIC_FOR_S = 60.0
DISCOVERED_FOR_S = 20.0


@dataclass(frozen=True, slots=True)
class _Known:
    uid: str
    until_s: float
    objects: tuple[Object, ...]


class ChildReader:
    """A reader that lists children by label and keeps those that the pool controls.

    Args:
        kube: the API server.
        without: kinds of children that the operator has no right to read.
        clock: monotonic seconds.
    """

    def __init__(
        self, kube: Kube, *, without: frozenset[ResourceKind], clock: Callable[[], float]
    ) -> None:
        self._kube = kube
        self._without = without
        self._clock = clock
        self._static: dict[tuple[str, str], _Known] = {}
        self._serves: dict[ResourceKind, tuple[bool, float]] = {}
        self._forbidden: dict[tuple[ResourceKind, str], float] = {}

    async def serves(self, kind: ResourceKind, *, namespace: str) -> bool:
        """Return whether the kind exists and is readable there; checked again every 20 s."""
        forbidden_until_s = self._forbidden.get((kind, namespace), float("-inf"))
        if kind in self._without or self._clock() < forbidden_until_s:
            return False
        served, until_s = self._serves.get(kind, (False, float("-inf")))
        if self._clock() >= until_s:
            served = await self._kube.serves(kind)
            self._serves[kind] = (served, self._clock() + DISCOVERED_FOR_S)
        return served

    async def read(
        self, *, namespace: str, pool: str, uid: str, pool_roles: bool = False
    ) -> tuple[Object, ...]:
        """Return every child of the pool.

        `pool_roles`: another owner sets replicas through PoolRoles, so each call reads them, too.
        """
        selector = f"{POOL_LABEL}={pool}"
        known = self._static.get((namespace, pool))
        if known is None or known.uid != uid or self._clock() >= known.until_s:
            until_s = self._clock() + STATIC_FOR_S
            # A change during this list may be missing from it: then the list is not kept.
            listing = self._static[namespace, pool] = _Known(uid, float("-inf"), ())
            found: list[Object] = []
            for kind in CHILDREN:
                if kind is not DEPLOYMENT:
                    found += await self._list(kind, namespace, selector, uid)
            known = _Known(uid, until_s, tuple(map(_without_managers, found)))
            if self._static.get((namespace, pool)) is listing:
                self._static[namespace, pool] = known
        fresh = await self._list(DEPLOYMENT, namespace, selector, uid)
        often = {POOL_ROLE.kind} if pool_roles else set()
        if any(each["kind"] == HTTP_ROUTE.kind for each in known.objects):
            often.add(HTTP_ROUTE.kind)
        for kind in (POOL_ROLE, HTTP_ROUTE):
            if kind.kind in often:
                fresh += await self._list(kind, namespace, selector, uid)
        kept = (each for each in known.objects if each["kind"] not in often)
        return (*kept, *fresh)

    def replace(self, written: Object, *, namespace: str, pool: str) -> None:
        """Store a child that was just written, instead of reading it again."""
        known = self._static.get((namespace, pool))
        if known is not None:
            others = (each for each in known.objects if key_of(each) != key_of(written))
            objects = (*others, _without_managers(written))
            self._static[namespace, pool] = replace(known, objects=objects)

    def invalidate(self, *, namespace: str, pool: str) -> None:
        """Read everything again on the next pass."""
        self._static.pop((namespace, pool), None)

    async def _list(
        self, kind: ResourceKind, namespace: str, selector: str, uid: str
    ) -> list[Object]:
        if kind in OPTIONAL and not await self.serves(kind, namespace=namespace):
            return []
        try:
            found = await self._kube.list(kind, namespace=namespace, selector=selector)
        except ApiServerError as error:
            if error.status == 404 and kind in OPTIONAL:
                self._serves[kind] = (False, self._clock() + DISCOVERED_FOR_S)
                return []
            if error.status == 403 and kind is HTTP_ROUTE:
                # The write reports the failure, too, and the pool continues without its route.
                return []
            if error.status == 403 and kind is CLAIM:
                # RBAC roles written by hand may lack a right that few pools need.
                return []
            if error.status == 403 and kind is POOL_ROLE:
                # The same; a PoolRole that cannot be read is not created either.
                until_s = self._clock() + DISCOVERED_FOR_S
                self._forbidden[kind, namespace] = until_s
                log.warning("no right to poolroles", extra={"namespace": namespace})
                return []
            raise
        return [each for each in found if controller_uid(each) == uid]


def _without_managers(found: Object) -> Object:
    # They are half of a small object's size, and only those about replica counts are used.
    found["metadata"].pop("managedFields", None)
    return found
