"""The reader of a pool's pods: those that carry its label and belong to its own ReplicaSets.

ReplicaSets are listed if a pod names an unknown one. UIDs are never used twice. So if a listing
after the pods lacks a UID, it never belongs to the pool.
"""

import logging
from collections.abc import Iterable

from tandem_contracts.names import POOL_LABEL
from tandem_operator.kube.client import Kube, Object
from tandem_operator.kube.kinds import POD, REPLICA_SET
from tandem_operator.workloads.observed.ownership import (
    ReplicaSets,
    own_pods,
    replica_set_uid,
    replica_sets_of,
)

log = logging.getLogger(__name__)


class PodReader:
    """A reader of pods of pools; it reports pods that only look like a pool's."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._sets: dict[tuple[str, str], list[Object]] = {}
        self._strangers: dict[tuple[str, str], frozenset[str]] = {}
        self._passed_over: dict[tuple[str, str], frozenset[str]] = {}

    async def read(
        self, *, namespace: str, pool: str, children: Iterable[Object]
    ) -> tuple[Object, ...]:
        """Return the pool's pods, given its children."""
        key, selector = (namespace, pool), f"{POOL_LABEL}={pool}"
        found = await self._kube.list(POD, namespace=namespace, selector=selector)
        named = frozenset(uid for each in found if (uid := replica_set_uid(each)) is not None)
        known = frozenset(each["metadata"]["uid"] for each in self._sets.get(key, ()))
        if not named <= known | self._strangers.get(key, frozenset()):
            sets = await self._kube.list(REPLICA_SET, namespace=namespace, selector=selector)
            self._sets[key] = [_head(each) for each in sets]
            self._strangers[key] = named - {each["metadata"]["uid"] for each in sets}
        own = own_pods(found, self._own(key, children))
        self._tell(key, found, own)
        return own

    def forget(self, *, namespace: str, pool: str) -> None:
        """Drop what is remembered of a pool that is gone."""
        for kept in (self._sets, self._strangers, self._passed_over):
            kept.pop((namespace, pool), None)

    def _own(self, key: tuple[str, str], children: Iterable[Object]) -> ReplicaSets:
        return replica_sets_of(self._sets.get(key, ()), children)

    def _tell(self, key: tuple[str, str], found: list[Object], own: tuple[Object, ...]) -> None:
        """Log once the pods that carry the pool's label and are not the pool's."""
        names = frozenset(each["metadata"]["name"] for each in found)
        others = names - {each["metadata"]["name"] for each in own}
        before = self._passed_over.get(key, frozenset())
        if others - before:
            extra = {"namespace": key[0], "pool": key[1], "pods": sorted(others)[:20]}
            log.warning("pods carry the pool's label and are not the pool's", extra=extra)
        self._passed_over[key] = others


def _head(found: Object) -> Object:
    """Return the needed part of a ReplicaSet: its owner."""
    metadata = found["metadata"]
    return {
        "metadata": {
            "uid": metadata["uid"],
            "ownerReferences": metadata.get("ownerReferences") or [],
        }
    }
