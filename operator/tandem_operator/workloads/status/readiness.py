"""The readiness of a pool and its rollout, for `kubectl wait`, Flux and Argo CD.

`Available`: requests are served now, by pods of any generation. Of the other three exactly one is
true. `Ready`: this generation runs at its minimum. `Reconciling`: it will. `Stalled`: it will not,
until a person changes something. kstatus takes the first of the last two that it meets, so a pool
must never claim both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tandem_operator.api import ConditionType
from tandem_operator.core.observation import PodPhase
from tandem_operator.core.role import Role
from tandem_operator.workloads.effects import WriteOutcome
from tandem_operator.workloads.observed.live_objects import LiveObjects
from tandem_operator.workloads.observed.turnover import old_pods, staying
from tandem_operator.workloads.pool_names import ROUTER
from tandem_operator.workloads.status.condition_now import (
    FALSE,
    TRUE,
    ConditionNow,
    Statement,
    joined,
)
from tandem_operator.workloads.status.pool_facts import PoolFacts

STARTING, ROLLING_OUT, BELOW_MINIMUM = "Starting", "RollingOut", "BelowMinimum"
ASLEEP, WAKING = "Asleep", "Waking"
UNDER_WAY = frozenset({ROLLING_OUT, BELOW_MINIMUM, WAKING})
"""Reasons for which a pool is not Ready although nothing is wrong."""
_COMPONENTS = (*Role, ROUTER)
_SERVING = Statement("Serving", "The router answers, and each role has a Ready pod.")
_ROLLED_OUT = Statement("RolledOut", "The pool serves, and every pod is of this generation.")
_ASLEEP = Statement(
    ASLEEP,
    "Both roles are at zero, since no requests come. The routers hold the next request, which"
    " wakes both.",
)
_WAKING = Statement(
    WAKING,
    "A request came while both roles were at zero. The routers hold it until the roles serve.",
)
_CALLED = Statement(
    WAKING, "A schedule wakes both roles. The routers hold requests until the roles serve."
)
_LEFT_AT_ZERO = Statement(
    "NotAwakened",
    "Both roles are at zero, and no request wakes them. Set scaling.mode: Auto, so that"
    " Tandem wakes them.",
)
_NOT_STALLED = Statement("NotStalled", "Tandem can apply this generation.")


def readiness(facts: PoolFacts) -> tuple[ConditionNow, ...]:
    """Return the four conditions of a pool with a valid spec."""
    available = _available(facts.seen, facts.templates, needed=_needed(facts))
    if facts.asleep and available.status == TRUE:
        available = _ASLEEP.makes(ConditionType.AVAILABLE, TRUE)
    elif facts.left_at_zero:
        available = _LEFT_AT_ZERO.makes(ConditionType.AVAILABLE, FALSE)
    elif facts.waking and available.reason == STARTING:
        available = _WAKING.makes(ConditionType.AVAILABLE, FALSE)
    elif facts.called and available.reason == STARTING:
        available = _CALLED.makes(ConditionType.AVAILABLE, FALSE)
    behind = None if facts.left_at_zero else _behind(facts)
    return _conditions(available, stall=stall_of(facts.outcome), behind=behind)


def _needed(facts: PoolFacts) -> tuple[str, ...]:
    """Return the components that need a pod to serve any request, now or after a wake."""
    return (ROUTER,) if facts.asleep else _COMPONENTS


def readiness_of_rejected(seen: LiveObjects, why: Statement) -> tuple[ConditionNow, ...]:
    """Return the four conditions of a pool whose spec cannot be run; its pods may still serve."""
    return _conditions(_available(seen, {}), stall=why, behind=None)


def stall_of(outcome: WriteOutcome) -> Statement | None:
    """Return why nothing of this generation was written, if so."""
    if outcome.blocked is not None:
        return Statement("OwnedByOther", f"Tandem changed nothing: {outcome.blocked}")
    if outcome.refused is not None:
        message = f"The API server refused an object, so Tandem changed nothing: {outcome.refused}"
        return Statement("ChildRefused", message)
    return None


def _conditions(
    available: ConditionNow, *, stall: Statement | None, behind: Statement | None
) -> tuple[ConditionNow, ...]:
    missing = available.status == FALSE
    why = Statement(available.reason, available.message) if missing else behind
    if stall is not None:
        ready = stall.makes(ConditionType.READY, FALSE)
        idle = Statement("Stalled", "Tandem cannot apply this generation.")
        reconciling = idle.makes(ConditionType.RECONCILING, FALSE)
        stalled = stall.makes(ConditionType.STALLED, TRUE)
    elif why is not None:
        ready = why.makes(ConditionType.READY, FALSE)
        reconciling = (behind or why).makes(ConditionType.RECONCILING, TRUE)
        stalled = _NOT_STALLED.makes(ConditionType.STALLED, FALSE)
    else:
        done = _ASLEEP if available.reason == ASLEEP else _ROLLED_OUT
        ready = done.makes(ConditionType.READY, TRUE)
        reconciling = done.makes(ConditionType.RECONCILING, FALSE)
        stalled = _NOT_STALLED.makes(ConditionType.STALLED, FALSE)
    return ready, available, reconciling, stalled


def _available(
    seen: LiveObjects, templates: Mapping[str, str], *, needed: Sequence[str] = _COMPONENTS
) -> ConditionNow:
    missing = [str(each) for each in needed if not seen.of(each, PodPhase.READY)]
    if not missing:
        return _SERVING.makes(ConditionType.AVAILABLE, TRUE)
    troubles = {
        each: found
        for each in missing
        if (found := _trouble(seen, each, template=templates.get(each))) is not None
    }
    if not troubles:
        lacking = Statement(STARTING, f"The pool needs a Ready pod of {joined(missing)}.")
        return lacking.makes(ConditionType.AVAILABLE, FALSE)
    message = "; ".join(f"{component}: {trouble}" for component, trouble in troubles.items())
    statement = Statement(_reason(troubles.values()), message)
    return statement.makes(ConditionType.AVAILABLE, FALSE)


@dataclass(frozen=True, slots=True)
class _Progress:
    """The distance of one component's fleet from the least count of this generation.

    Attributes:
        ready: Ready pods of this generation.
        old: pods of other generations that were not told to end.
        asked: replicas of its Deployment, or pods if that is not known.
        least: the least replicas of this generation.
    """

    component: str
    ready: int
    old: int
    asked: int
    least: int
    trouble: str | None

    @property
    def words(self) -> str | None:
        """Return the missing pods in words; `None` if none is missing."""
        if self.old:
            total = max(1, self.asked)
            done = min(self.ready, total)
            text = f"{done} of {total} pods run the new spec"
            if done == total:
                text += f", and {self.old} older {_pods(self.old)} still running"
        elif self.ready < self.least:
            text = f"{self.ready} of the required {self.least} {_pods(self.least)} Ready"
        else:
            return None
        return ": ".join(filter(None, [self.component, text, self.trouble]))


def _behind(facts: PoolFacts) -> Statement | None:
    """Return the pods that this generation lacks to run at its minimum."""
    fleets = [_progress(facts, component) for component in _COMPONENTS]
    found = [(fleet, words) for fleet in fleets if (words := fleet.words) is not None]
    if not found:
        return None
    troubles = [fleet.trouble for fleet, _ in found if fleet.trouble is not None]
    under_way = ROLLING_OUT if any(fleet.old for fleet, _ in found) else BELOW_MINIMUM
    reason = _reason(troubles) if troubles else under_way
    return Statement(reason, "; ".join(words for _, words in found).rstrip(".") + ".")


def _progress(facts: PoolFacts, component: str) -> _Progress:
    pods, template = staying(facts.seen, component), facts.templates[component]
    old = old_pods(facts.seen, component, template=template)
    ready = sum(pod.template == template and pod.phase is PodPhase.READY for pod in pods)
    return _Progress(
        component=component,
        ready=min(ready, len(pods) - old),
        old=old,
        asked=facts.seen.replicas.get(component, len(pods)),
        least=facts.least(component),
        trouble=_trouble(facts.seen, component, template=template),
    )


def _trouble(seen: LiveObjects, component: str, *, template: str | None) -> str | None:
    """Return why the component lacks a Ready pod of this generation, if it is known."""
    refusal = seen.refusals.get(component)
    if refusal is not None:
        return refusal
    pods = sorted(seen.of(component), key=lambda pod: pod.name)
    newest = [pod for pod in pods if pod.template == template]
    return next((pod.trouble for pod in newest or pods if pod.trouble), None)


def _reason(troubles: Iterable[str]) -> str:
    """Return the first word of the first trouble."""
    word = next(iter(troubles)).partition(":")[0]
    return word if word.isascii() and word.isalnum() else "PodsFailing"


def _pods(count: int) -> str:
    return "pod is" if count == 1 else "pods are"
