"""The names of HorizontalPodAutoscalers: asked for only where one fights over a replica count."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus

from tandem_operator.kube.client import ApiServerError, Kube
from tandem_operator.kube.kinds import AUTOSCALER, DEPLOYMENT
from tandem_operator.workloads.observed.rivals import AN_AUTOSCALER
from tandem_operator.workloads.world import Rival

READ_FOR_S = 60.0


class Autoscalers:
    """Which autoscaler scales which Deployment, as far as the operator may list them."""

    def __init__(self, kube: Kube, *, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._clock = clock
        self._read: dict[str, tuple[float, Mapping[str, str]]] = {}

    async def named(
        self, rivals: Mapping[str, Rival], *, namespace: str, pool: str
    ) -> Mapping[str, Rival]:
        """The rivals of a pool by component, with the names of those that are autoscalers."""
        if all(rival.who != AN_AUTOSCALER for rival in rivals.values()):
            return rivals
        names = await self._names(namespace)
        return {
            component: replace(rival, who=f"{AUTOSCALER.kind} {name}")
            if rival.who == AN_AUTOSCALER and (name := names.get(f"{pool}-{component}")) is not None
            else rival
            for component, rival in rivals.items()
        }

    async def _names(self, namespace: str) -> Mapping[str, str]:
        """Names of autoscalers by the name of the Deployment that each scales."""
        now_s = self._clock()
        fresh = {each: read for each, read in self._read.items() if now_s < read[0]}
        if namespace not in fresh:
            fresh[namespace] = (now_s + READ_FOR_S, await self._list(namespace))
        self._read = fresh
        return fresh[namespace][1]

    async def _list(self, namespace: str) -> Mapping[str, str]:
        try:
            found = await self._kube.list(AUTOSCALER, namespace=namespace)
        except ApiServerError as error:
            # An installation of before grants no such right, and the fight is told of all the same.
            if error.status in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
                return {}
            raise
        targets = [(each["metadata"]["name"], each["spec"]["scaleTargetRef"]) for each in found]
        return {
            str(target["name"]): str(name)
            for name, target in targets
            if target["kind"] == DEPLOYMENT.kind
        }
