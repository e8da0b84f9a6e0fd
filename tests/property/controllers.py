"""A model of Kubernetes' Deployment and ReplicaSet controllers at work on a pool's Deployments.

Like the real ones they do not count pods that terminate. A test makes pods Ready and ends them.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tandem_operator.core.role import Role
from tandem_operator.workloads.labels import TEMPLATE_ANNOTATION
from tandem_operator.workloads.world import Object, World
from tests.unit.workloads.cluster import NOW, deployment, pod

NEVER_ENDS = 100


class Fleet:
    """One role's pods."""

    def __init__(self, role: Role, pods: list[Object]) -> None:
        self.role = role
        self.pods = pods
        self._names = itertools.count(100)

    @property
    def held(self) -> int:
        return len(self.pods)

    @property
    def revisions(self) -> set[str]:
        return {_revision(each) for each in self.pods}

    @property
    def ready(self) -> int:
        return sum(_is_ready(each) for each in self._active())

    def start(self) -> list[Object]:
        """Return the pods that start, to become Ready later."""
        return [each for each in self._active() if not _is_ready(each)]

    def leaving(self) -> list[Object]:
        return [each for each in self.pods if "deletionTimestamp" in each["metadata"]]

    def end(self, leaving: Object) -> None:
        self.pods.remove(leaving)

    def reconcile(self, live: World) -> None:
        """Let the controllers act until they come to rest."""
        for _ in range(NEVER_ENDS):
            before = len(self._active()), len(self.pods)
            self._step(live)
            if before == (len(self._active()), len(self.pods)):
                return
        raise AssertionError("the controllers never come to rest")

    def _step(self, live: World) -> None:
        spec = deployment(live, self.role)["spec"]
        rolling = spec["strategy"].get("rollingUpdate", {"maxSurge": 0, "maxUnavailable": 1})
        wanted, current = spec["replicas"], _revision(spec["template"])
        active = self._active()
        fresh = [each for each in active if _revision(each) == current]
        old = [each for each in active if _revision(each) != current]
        if spec.get("paused"):
            self._scale_paused(live, wanted + rolling["maxSurge"])
        elif spec["strategy"]["type"] == "Recreate":
            self._stop(old, len(old))
            if not any(_revision(each) != current for each in self.pods):
                self._resize(live, fresh, wanted)
        elif len(fresh) > wanted:
            self._stop(fresh, len(fresh) - wanted)
        elif len(fresh) < wanted and len(active) < wanted + rolling["maxSurge"]:
            for _ in range(min(wanted - len(fresh), wanted + rolling["maxSurge"] - len(active))):
                self._make(live)
        elif old:
            least = wanted - rolling["maxUnavailable"]
            unready = sum(not _is_ready(each) for each in fresh)
            spare = len(active) - least - unready
            broken = [each for each in old if not _is_ready(each)][: max(0, spare)]
            self._stop(broken, len(broken))
            serving = [each for each in old if _is_ready(each)]
            self._stop(serving, min(self.ready - least, len(serving)))

    def _scale_paused(self, live: World, allowed: int) -> None:
        active = self._active()
        counts = Counter(map(_revision, active))
        if len(counts) <= 1:
            allowed = deployment(live, self.role)["spec"]["replicas"]
        if len(active) > allowed:
            largest, _ = counts.most_common(1)[0]
            self._stop([each for each in active if _revision(each) == largest], 1)
        elif active and len(active) < allowed:
            like = next(each for each in active if _revision(each) == counts.most_common(1)[0][0])
            self._make(live, like=like)

    def _resize(self, live: World, pods: list[Object], wanted: int) -> None:
        self._stop(pods, len(pods) - wanted)
        for _ in range(wanted - len(pods)):
            self._make(live)

    def _stop(self, pods: list[Object], count: int) -> None:
        for each in sorted(pods, key=_is_ready)[: max(0, count)]:
            each["metadata"]["deletionTimestamp"] = NOW

    def _make(self, live: World, like: Object | None = None) -> None:
        made = pod(live, self.role, next(self._names), ready=False)
        if like is not None:
            made["metadata"] |= {part: like["metadata"][part] for part in ("labels", "annotations")}
        self.pods.append(made)

    def _active(self) -> list[Object]:
        return [each for each in self.pods if "deletionTimestamp" not in each["metadata"]]


def fleets_of(live: World) -> dict[Role, Fleet]:
    """Return the fleets of a pool as it stands."""
    return {
        role: Fleet(role, [each for each in live.pods if f"-{role}-" in each["metadata"]["name"]])
        for role in Role
    }


def with_pods(live: World, fleets: dict[Role, Fleet]) -> World:
    """Return the world with these pods beside those of the routers."""
    routers = tuple(each for each in live.pods if "-router-" in each["metadata"]["name"])
    return replace(live, pods=(*routers, *_copies(fleets)))


def become_ready(started: Object) -> None:
    """Show a pod as one that serves."""
    started["status"]["conditions"][0]["status"] = "True"


def _copies(fleets: dict[Role, Fleet]) -> Iterator[Object]:
    for fleet in fleets.values():
        yield from fleet.pods


def _revision(body: Object) -> str:
    return str(body["metadata"]["annotations"][TEMPLATE_ANNOTATION])


def _is_ready(body: Object) -> bool:
    return bool(body["status"]["conditions"][0]["status"] == "True")
