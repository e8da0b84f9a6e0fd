"""The HorizontalPodAutoscalers of a namespace, and the targets that they scale, by name."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus

import aiohttp

from tandem_operator.kube.client import ApiServerError, Kube
from tandem_operator.kube.kinds import AUTOSCALER, DEPLOYMENT, POOL_ROLE
from tandem_operator.workloads.observed.rivals import AN_AUTOSCALER
from tandem_operator.workloads.world import Rival

log = logging.getLogger(__name__)

READ_FOR_S = 60.0
AGAIN_AFTER_S = 1.0


_Target = tuple[str, str]
"""Kind and name."""


class Autoscalers:
    """The autoscalers and their targets, if the operator may list them; read once a minute."""

    def __init__(self, kube: Kube, *, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._clock = clock
        self._read: dict[str, tuple[float, Mapping[_Target, str]]] = {}

    async def named(
        self, rivals: Mapping[str, Rival], *, namespace: str, pool: str
    ) -> Mapping[str, Rival]:
        """Return the rivals of a pool by component, with the names of autoscalers among them."""
        if all(rival.who != AN_AUTOSCALER for rival in rivals.values()):
            return rivals
        fighting = {
            (DEPLOYMENT.kind, f"{pool}-{component}")
            for component, rival in rivals.items()
            if rival.who == AN_AUTOSCALER
        }
        names = await self._names(namespace)
        if fighting - names.keys():
            # A list from before the fight may not contain it yet.
            names = await self._names(namespace, at_most_old_s=AGAIN_AFTER_S)
        return {
            component: replace(rival, who=f"{AUTOSCALER.kind} {name}")
            if rival.who == AN_AUTOSCALER
            and (name := names.get((DEPLOYMENT.kind, f"{pool}-{component}"))) is not None
            else rival
            for component, rival in rivals.items()
        }

    async def waiting(
        self, roles: Iterable[str], *, namespace: str, pool: str
    ) -> Mapping[str, str]:
        """Return the autoscalers that would scale a role through a PoolRole, by role."""
        names = await self._names(namespace)
        return {
            role: name
            for role in roles
            if (name := names.get((POOL_ROLE.kind, f"{pool}-{role}"))) is not None
        }

    async def _names(
        self, namespace: str, *, at_most_old_s: float = READ_FOR_S
    ) -> Mapping[_Target, str]:
        """Return the names of autoscalers by their targets."""
        now_s = self._clock()
        fresh = {each: read for each, read in self._read.items() if now_s < read[0] + READ_FOR_S}
        if namespace not in fresh or now_s >= fresh[namespace][0] + at_most_old_s:
            fresh[namespace] = (now_s, await self._list(namespace))
        self._read = fresh
        return fresh[namespace][1]

    async def _list(self, namespace: str) -> Mapping[_Target, str]:
        try:
            found = await self._kube.list(AUTOSCALER, namespace=namespace)
        except ApiServerError as error:
            # An older installation grants no such right; the fight is reported without the name.
            if error.status in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
                return {}
            return self._before(namespace, error)
        except (aiohttp.ClientError, TimeoutError) as error:
            return self._before(namespace, error)
        targets = [(each["metadata"]["name"], each["spec"]["scaleTargetRef"]) for each in found]
        return {(str(target["kind"]), str(target["name"])): str(name) for name, target in targets}

    def _before(self, namespace: str, error: Exception) -> Mapping[_Target, str]:
        """Return the last known names after a failed list: they are only for sentences."""
        log.info("autoscalers not listed", extra={"namespace": namespace, "why": repr(error)})
        _, names = self._read.get(namespace, (0.0, {}))
        return names
