"""Leader election on one Lease: its holder writes, and a process that loses it must end at once.

Ages are measured on this process's own monotonic clock, from the moment when it *saw* the lease
change. So different clocks of machines do no harm. Every attempt is bounded, so a hanging API
server counts as a failed renewal and not as a held lease.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import aiohttp

from tandem_operator.kube.client import ApiServerError, Kube, Object
from tandem_operator.kube.kinds import LEASE

log = logging.getLogger(__name__)

MANAGER = "tandem-lease"
_FAILURES = (ApiServerError, aiohttp.ClientError, OSError, TimeoutError)


class LeaseLostError(Exception):
    """This process may no longer act; the message says why."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The lease and its candidate, with the times that client-go uses too.

    Attributes:
        duration_s: time that others wait after the last seen renewal before they take over.
        renew_deadline_s: time without a renewal after which the holder gives up. It is below
            `duration_s`, else two processes would act at once.
        retry_s: pause between two attempts.
    """

    namespace: str
    name: str
    identity: str
    duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0


class Lease:
    """One process's view of the Lease. Every write checks `held` first."""

    def __init__(self, kube: Kube, terms: LeaseTerms, *, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._terms = terms
        self._clock = clock
        self._valid_until_s = float("-inf")
        self._seen: Object | None = None
        self._seen_at_s = float("-inf")

    @property
    def held(self) -> bool:
        """Return whether this process may act now, even if its event loop was stuck for a while."""
        return self._clock() < self._valid_until_s

    async def acquire(self) -> None:
        """Wait until the lease is ours. Failures of the API server only delay that."""
        while True:
            if await self._try():
                break
            await asyncio.sleep(self._terms.retry_s)
        log.info("lease acquired", extra={"identity": self._terms.identity})

    async def keep(self) -> None:
        """Renew until the lease is lost, then raise `LeaseLostError`."""
        while True:
            await asyncio.sleep(self._terms.retry_s)
            if not await self._try() and not self.held:
                holder = _holder(self._seen)
                if holder and holder != self._terms.identity:
                    raise LeaseLostError(f"The lease is held by {holder} now.")
                raise LeaseLostError(f"No renewal for {self._terms.renew_deadline_s:g} s.")

    async def release(self) -> None:
        """Hand the lease over at once, so that a standby need not wait for it to run out."""
        if not self.held or self._seen is None:
            return
        self._valid_until_s = float("-inf")
        with contextlib.suppress(*_FAILURES):
            await self._write(self._seen, holder="", duration_s=1)

    async def _try(self) -> bool:
        asked_at_s = self._clock()
        limit_s = self._terms.retry_s
        if self.held:
            limit_s = max(0.05, self._valid_until_s - asked_at_s)
        try:
            async with asyncio.timeout(limit_s):
                won = await self._take_or_renew()
        except _FAILURES as error:
            log.warning("lease attempt failed", extra={"why": repr(error)})
            return False
        if won:
            self._valid_until_s = asked_at_s + self._terms.renew_deadline_s
        elif _holder(self._seen) != self._terms.identity:
            self._valid_until_s = float("-inf")
        return won

    async def _take_or_renew(self) -> bool:
        terms = self._terms
        found = await self._kube.get(LEASE, namespace=terms.namespace, name=terms.name)
        if found is None:
            found = _empty(terms)
        elif self._seen is None or found.get("spec") != self._seen.get("spec"):
            self._seen, self._seen_at_s = found, self._clock()
        holder = _holder(found)
        if holder and holder != terms.identity:
            duration_s = float(found["spec"].get("leaseDurationSeconds") or terms.duration_s)
            if self._clock() < self._seen_at_s + duration_s:
                return False
        try:
            self._seen = await self._write(found, holder=terms.identity, duration_s=None)
        except ApiServerError as error:
            if error.status == 409:
                return False
            raise
        self._seen_at_s = self._clock()
        return True

    async def _write(self, found: Object, *, holder: str, duration_s: float | None) -> Object:
        terms = self._terms
        old = found.get("spec") or {}
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        changed = _holder(found) != holder
        spec = {
            "holderIdentity": holder,
            # The API takes whole seconds of at least one.
            "leaseDurationSeconds": max(1, round(duration_s or terms.duration_s)),
            "renewTime": now,
            "acquireTime": now if changed else old.get("acquireTime", now),
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + int(changed),
        }
        # The write contains the resourceVersion that was read: two candidates cannot both win.
        body = {**found, "spec": spec}
        collection = LEASE.path(namespace=terms.namespace)
        query = {"fieldManager": MANAGER}
        if "resourceVersion" in found["metadata"]:
            path = f"{collection}/{terms.name}"
            return await self._kube.request("PUT", path, query=query, body=body)
        return await self._kube.request("POST", collection, query=query, body=body)


def _empty(terms: LeaseTerms) -> Object:
    return {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.kind,
        "metadata": {"namespace": terms.namespace, "name": terms.name},
        "spec": {},
    }


def _holder(found: Object | None) -> str:
    spec = (found or {}).get("spec") or {}
    return str(spec.get("holderIdentity") or "")
