"""Values of Secrets and ConfigMaps that a pool's spec names, read when they are needed.

No role of the chart lets the operator read a Secret. The owner of a namespace grants it the one
Secret that a pool names.
"""

import base64
import binascii
from collections.abc import Callable
from typing import NamedTuple

import aiohttp

from tandem_operator.kube.client import ApiServerError, Kube, Object
from tandem_operator.kube.kinds import CONFIG_MAP, SECRET, ResourceKind

KEPT_S = 30.0
"""The highest age of a value: each pool is read every few seconds."""


class _Kept(NamedTuple):
    at_s: float
    found: Object | str
    """The object, or why it is not known."""


class NamespaceValues:
    """The values of objects in pools' namespaces; a `LookupError` says why one is not known."""

    def __init__(self, kube: Kube, *, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._clock = clock
        self._kept: dict[tuple[str, str, str], _Kept] = {}

    async def of_secret(self, *, namespace: str, name: str, key: str) -> bytes:
        """Return one value of a Secret."""
        text = self._value(SECRET, name, key, await self._object(SECRET, namespace, name))
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            raise LookupError(f"Secret {name}: its {key} is not base64") from None

    async def of_config_map(self, *, namespace: str, name: str, key: str) -> bytes:
        """Return one value of a ConfigMap."""
        found = await self._object(CONFIG_MAP, namespace, name)
        return self._value(CONFIG_MAP, name, key, found).encode()

    @staticmethod
    def _value(kind: ResourceKind, name: str, key: str, found: Object) -> str:
        value = (found.get("data") or {}).get(key)
        if value is None:
            raise LookupError(f"{kind.kind} {name} has no key {key}")
        return str(value)

    async def _object(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        now_s = self._clock()
        self._kept = {k: each for k, each in self._kept.items() if now_s - each.at_s < KEPT_S}
        place = (kind.kind, namespace, name)
        if place not in self._kept:
            self._kept[place] = _Kept(now_s, await self._read(kind, namespace, name))
        found = self._kept[place].found
        if isinstance(found, str):
            raise LookupError(found)
        return found

    async def _read(self, kind: ResourceKind, namespace: str, name: str) -> Object | str:
        named = f"{kind.kind} {name}"
        try:
            found = await self._kube.get(kind, namespace=namespace, name=name)
        except ApiServerError as error:
            if error.status == 403:
                return f"the operator may not read {named}; grant it `get` of this one"
            return f"the API server shows no {named}: HTTP {error.status}"
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return f"the API server shows no {named}: {type(error).__name__}"
        return f"there is no {named} in the pool's namespace" if found is None else found
