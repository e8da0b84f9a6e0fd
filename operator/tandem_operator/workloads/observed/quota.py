"""The GPUs that a namespace's ResourceQuotas leave to pools, from objects of the API server.

A quota's own count of used GPUs lags behind the pods. So the use by others is counted from the pods
themselves.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tandem_contracts.names import POOL_LABEL
from tandem_operator.api import quantity
from tandem_operator.core.quota.allocate import Claim
from tandem_operator.core.quota.share import Quota

# Every pod of a pool is in this scope: none has a deadline.
_WITHOUT_END = frozenset({"NotTerminating"})
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class NamespaceGpus:
    """The GPUs that a namespace may use, and those that its pods request, by pool.

    Attributes:
        resource: the resource of nodes that counts as a GPU.
        used: GPUs by pool; pods of no pool have the empty name.
    """

    resource: str
    hard: int
    used: Mapping[str, int]

    def seen_by(self, pool: str, claims: Mapping[str, Claim]) -> Quota:
        """Return the GPUs that the pool shares with claiming pools. Other pods keep theirs."""
        claiming = {pool, *claims}
        others = sum(gpus for name, gpus in self.used.items() if name not in claiming)
        return Quota(
            pool=pool,
            hard_gpus=self.hard,
            gpus=max(0, self.hard - others),
            claims=tuple(claim for name, claim in sorted(claims.items()) if name != pool),
        )


def hard_gpus(quotas: Iterable[Mapping[str, Any]], resource: str) -> int | None:
    """Return the tightest limit on a resource of all serving pods; `None` if there is none.

    A quota on some pods only, such as those of a priority class, is left to the API server. It
    refuses an excess, and Tandem sees the refusal.
    """
    key = f"requests.{resource}"
    specs = [quota.get("spec") or {} for quota in quotas]
    limits = [
        int(quantity(hard[key]))
        for spec in specs
        if key in (hard := spec.get("hard") or {}) and _scopes(spec) <= _WITHOUT_END
    ]
    return min(limits, default=None)


def _scopes(spec: Mapping[str, Any]) -> set[str]:
    selector = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return {*(spec.get("scopes") or ()), *(each.get("scopeName", "") for each in selector)}


def gpus_by_pool(pods: Iterable[Mapping[str, Any]], resource: str) -> Mapping[str, int]:
    """Return the GPUs that pods request, as a quota counts them: until a pod has ended."""
    used: dict[str, int] = {}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in _ENDED:
            continue
        pool = (pod["metadata"].get("labels") or {}).get(POOL_LABEL, "")
        used[pool] = used.get(pool, 0) + _gpus_of(pod, resource)
    return used


def _gpus_of(pod: Mapping[str, Any], resource: str) -> int:
    """Return the requests of all containers together, or of one init container if that is more."""
    spec = pod.get("spec") or {}
    together = sum(_requested(each, resource) for each in spec.get("containers") or ())
    most = 0
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            together += _requested(container, resource)
        else:
            most = max(most, _requested(container, resource))
    return max(together, most)


def _requested(container: Mapping[str, Any], resource: str) -> int:
    resources = container.get("resources") or {}
    for kind in ("requests", "limits"):
        if resource in (resources.get(kind) or {}):
            return int(quantity(resources[kind][resource]))
    return 0
