"""The writer of the statuses of pools and PoolRoles, with a field manager of its own.

A change of a condition, a count or a decision is written at once. Measured numbers change with
every request. So they alone are written only `NUMBERS_EVERY_S` after the last write.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from tandem_operator.kube.client import ApiServerError, Kube, Object
from tandem_operator.kube.kinds import POOL, POOL_ROLE
from tandem_operator.workloads.status.measured_numbers import without_numbers

STATUS_MANAGER = "tandem-status"
NUMBERS_EVERY_S = 30.0
_NO_ROLE_STATUS = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.FORBIDDEN})


class PoolGoneError(Exception):
    """The pool was deleted, and perhaps created again, since it was read."""


class StatusWriter:
    """A writer of pools' statuses, by server-side apply on the subresource."""

    def __init__(self, kube: Kube, *, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._clock = clock
        self._written_at_s: dict[str, float] = {}
        self._answers: dict[str, tuple[Any, Any]] = {}

    async def write(self, pool: Object, status: Mapping[str, Any]) -> bool:
        """Write the status if it says something new; return whether it did.

        Raises:
            PoolGoneError: there is no such pool any more.
        """
        uid, now_s = pool["metadata"]["uid"], self._clock()
        desired, current = _present(status), _present(pool.get("status") or {})
        # The schema may drop fields or add defaults: its earlier result for the same status is no
        # change.
        if current == desired or self._answers.get(uid) == (desired, current):
            return False
        only_numbers = without_numbers(desired) == without_numbers(current)
        if only_numbers and now_s - self._written_at_s.get(uid, -NUMBERS_EVERY_S) < NUMBERS_EVERY_S:
            return False
        body = POOL.head_of(pool) | {"status": desired}
        try:
            answer = await self._kube.apply(
                POOL, body, manager=STATUS_MANAGER, force=True, subresource="status"
            )
        except ApiServerError as error:
            # With force, only another UID conflicts.
            if error.status in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
                raise PoolGoneError(error.message) from error
            raise
        self._written_at_s[uid] = now_s
        self._answers[uid] = (desired, _present(answer.get("status") or {}))
        return True

    async def write_role(self, pool_role: Object, status: Mapping[str, Any]) -> None:
        """Write the status of a PoolRole, unless it is gone or the right is missing."""
        body = POOL_ROLE.head_of(pool_role) | {"status": dict(status)}
        try:
            await self._kube.apply(
                POOL_ROLE, body, manager=STATUS_MANAGER, force=True, subresource="status"
            )
        except ApiServerError as error:
            # RBAC roles written by hand may lack the right, and the pool runs on without it.
            if error.status not in _NO_ROLE_STATUS:
                raise

    def forget(self, uid: str) -> None:
        """Drop what is remembered of a pool that is gone."""
        self._written_at_s.pop(uid, None)
        self._answers.pop(uid, None)


def _present(value: Any) -> Any:
    """Return the value without empty fields."""
    if isinstance(value, Mapping):
        return {key: _present(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_present(each) for each in value]
    return value
