"""The creator of the Secret with the key of a pool's engines: it creates it once and reads none.

It needs only the right to `create` Secrets. `get`, `list` and `watch` would show the operator all
Secrets. So would `patch`, because its answer is the whole object.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from tandem_operator.kube.client import CHILD_MANAGER, ApiServerError, Kube
from tandem_operator.kube.kinds import SECRET
from tandem_operator.workloads.builders.engine_key import key_secret
from tandem_operator.workloads.pool_names import PoolName

KNOWN_FOR_S = 300.0
_KEY_BYTES = 32
_REFUSALS = frozenset({400, 403, 404, 413, 422})


@dataclass(frozen=True, slots=True)
class Ensured:
    """The result for a pool's Secret.

    Attributes:
        refused: why the API server refuses it, if so.
        made: whether it was created now.
    """

    refused: str | None = None
    made: bool = False


class EngineKeys:
    """A memory of the Secrets that exist, for a while."""

    def __init__(self, kube: Kube, *, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._clock = clock
        self._known_until_s: dict[str, float] = {}

    async def ensure(self, name: PoolName, *, missed: bool) -> Ensured:
        """Make the pool's Secret unless it exists.

        Args:
            name: the pool.
            missed: whether a pod reports that it is missing.
        """
        if not missed and self._clock() < self._known_until_s.get(name.uid, float("-inf")):
            return Ensured()
        made = True
        body = key_secret(name, secrets.token_urlsafe(_KEY_BYTES))
        try:
            await self._kube.create(SECRET, body, namespace=name.namespace, manager=CHILD_MANAGER)
        except ApiServerError as error:
            # Only this pool has this name, so an existing Secret is its own.
            if error.status != HTTPStatus.CONFLICT:
                if error.status in _REFUSALS:
                    return Ensured(refused=f"Secret {name.engine_key}: {error.message}")
                raise
            made = False
        self._known_until_s[name.uid] = self._clock() + KNOWN_FOR_S
        return Ensured(made=made)

    def forget(self, uid: str) -> None:
        """Drop what is remembered about a pool that is gone."""
        self._known_until_s.pop(uid, None)
