"""The engine pods that do not serve although they should, since when and why, in words.

These are Ready pods that get no requests from the routers, and pods that are no longer Ready.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tandem_operator.core.observation import PodPhase, RouterReport, SickPod
from tandem_operator.core.role import Role
from tandem_operator.workloads.status.pool_facts import PoolFacts

WORTH_TELLING_S = 5.0
"""Least time before a pod is reported: many recover sooner."""
_WORDS = {
    "refused": "it accepts no connections",
    "silent": "it does not answer",
    "failures": "its last requests all failed",
    "failure_share": "too many of its requests fail",
    "no_progress": "it generates no tokens while requests wait",
    "slow": "its TTFT is far above that of its peers",
    "kv": "decode pods cannot pull its KV blocks",
}
_UNKNOWN = "the router reports problems with it"
_LAPSED = "its engine restarts soon unless it generates tokens again"


@dataclass(frozen=True, slots=True)
class Sickness:
    """One pod and its fault."""

    pod: str
    role: Role
    since_s: float
    words: str


def ejected(facts: PoolFacts) -> tuple[Sickness, ...]:
    """Return the pods worth reporting, by role and name, although Kubernetes calls them Ready."""
    ready = {pod.name for role in Role for pod in facts.seen.of(role, PodPhase.READY)}
    first: dict[str, SickPod] = {}
    for sick in _reported_sick(facts.seen.observation.routers):
        known = first.get(sick.pod)
        if known is None or (sick.since_s, sick.reason) < (known.since_s, known.reason):
            first[sick.pod] = sick
    return tuple(
        # A router's clock may have any value.
        Sickness(sick.pod, sick.role, max(0.0, sick.since_s), _WORDS.get(sick.reason, _UNKNOWN))
        for sick in sorted(first.values(), key=lambda sick: (sick.role, sick.pod))
        if sick.pod in ready and facts.now_s - sick.since_s >= WORTH_TELLING_S
    )


def lapsed(facts: PoolFacts) -> tuple[Sickness, ...]:
    """Return the pods that are no longer Ready, by role and name."""
    return tuple(
        Sickness(pod.name, role, pod.lapsed_s, pod.trouble or _LAPSED)
        for role in Role
        for pod in sorted(facts.seen.of(role), key=lambda pod: pod.name)
        if pod.lapsed_s is not None
    )


def _reported_sick(routers: Iterable[RouterReport]) -> Iterator[SickPod]:
    for router in routers:
        yield from router.sick
