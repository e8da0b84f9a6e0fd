"""Pools on their way from one generation to the next, pod by pod."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tandem_operator.workloads.pass_plan import WriteOutcome, conclude, plan
from tandem_operator.workloads.world import Object, World
from tests.unit.workloads.cluster import NOW_S, after, pod, pool, report, running

NEW_PODS = {"engine": {"dtype": "bfloat16"}}
"""An edit that replaces the pods of both roles."""
WRITTEN = WriteOutcome()
REFUSED = WriteOutcome(refused="Deployment tiny-decode: spec.template.spec.volumes: bad")
BLOCKED = WriteOutcome(
    blocked="Service tiny-router exists already and does not belong to this pool."
)


def serving(*changes: Mapping[str, Any], **counts: int) -> World:
    """Return a pool that has served for a while, with its status of then."""
    live = replace(running(*changes, **counts), routers=(report(),))
    return after(live, plan(live, now_s=NOW_S), routers=(report(),))


def edited(live: World, *changes: Mapping[str, Any]) -> World:
    """Return the same pool just after an edit."""
    return replace(live, pool=pool(*changes, generation=2, status=live.pool["status"]))


def applied(live: World) -> World:
    """Return the world right after a pass: no write has had an effect yet."""
    return after(live, plan(live, now_s=NOW_S), routers=live.routers)


def of_pods(live: World, pods: Iterable[Object]) -> World:
    """Return the same pool with these pods alone, each under a name of its own."""
    named = [
        each | {"metadata": each["metadata"] | {"name": f"{each['metadata']['name']}-{index}"}}
        for index, each in enumerate(pods)
    ]
    return replace(live, pods=tuple(named))


def rolled(live: World, *, new: Mapping[str, int], old: Mapping[str, int]) -> World:
    """Return a rollout of `NEW_PODS` so far that these pods are Ready."""
    rolling = applied(edited(live, NEW_PODS))
    return of_pods(
        rolling,
        [
            pod(made_by, component)
            for made_by, counts in ((live, old), (rolling, new))
            for component, count in counts.items()
            for _ in range(count)
        ],
    )


def told(live: World, outcome: WriteOutcome = WRITTEN, *, now_s: float = NOW_S) -> Object:
    """Return the pool as GitOps tools read it after a pass whose writes came to this."""
    planned = conclude(plan(live, now_s=now_s), outcome, world=live, now_s=now_s)
    status = live.pool["status"] if planned.status is None else planned.status
    return dict(live.pool) | {"status": status}
