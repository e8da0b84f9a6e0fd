"""The invariants of every run, whatever the fault. Each check returns a sentence per violation."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator

from e2e.faults.evidence import Evidence, Fate, Request
from e2e.faults.scenario import Loss, Scenario
from tandem_operator.core.role import Role

NAMED_WITHIN_S = 30.0
Check = Callable[[Scenario, Evidence], Iterator[str]]


def accounted(scenario: Scenario, seen: Evidence) -> Iterator[str]:
    """Check that accepted = finished + honestly refused + held by what was killed."""
    without_cause = Counter(
        f"lost without cause: {request.why}"
        for request in seen.requests
        if request.fate is Fate.LOST and not _held(scenario.may_lose, seen, request)
    )
    for why, count in without_cause.items():
        yield f"{count} {why}"


def _held(may_lose: Loss, seen: Evidence, request: Request) -> bool:
    was_open = request.sent_s <= seen.dealt_s and request.ended_s >= seen.fault_s
    if may_lose is Loss.BEGUN:
        return was_open and request.began is not False
    return was_open and may_lose is Loss.HELD


def right(scenario: Scenario, seen: Evidence) -> Iterator[str]:
    """Check that no answer has a wrong token, not even one that was cut off."""
    del scenario
    for request in seen.requests:
        if request.wrong is not None:
            yield f"wrong content in {request.name}: {request.wrong}"


def ended(scenario: Scenario, seen: Evidence) -> Iterator[str]:
    """Check that no request hangs."""
    del scenario
    for request in seen.requests:
        if request.fate is Fate.HUNG:
            yield f"{request.name} hung: {request.why}"


def in_budget(scenario: Scenario, seen: Evidence) -> Iterator[str]:
    """Check that the pool never holds more than it may."""
    del scenario
    most = max((moment.gpus for moment in seen.moments), default=0)
    if seen.budget is not None and most > seen.budget:
        yield f"{most} GPUs were held with a budget of {seen.budget}"


def no_blind_shrink(scenario: Scenario, seen: Evidence) -> Iterator[str]:
    """Check that no replica is taken away while the operator says that it lacks metrics."""
    del scenario
    for before, after in itertools.pairwise(seen.moments):
        for role in Role:
            if before.blind and after.blind and after.asked[role] < before.asked[role]:
                counts = f"{before.asked[role]} to {after.asked[role]}"
                yield f"{role} went from {counts} on missing data at {after.at_s:.0f} s"


def together(scenario: Scenario, seen: Evidence) -> Iterator[str]:
    """Check that both roles are at zero, or none is."""
    del scenario
    for moment in seen.moments:
        if len({count > 0 for count in moment.asked.values()}) > 1:
            counts = ", ".join(f"{role} {count}" for role, count in moment.asked.items())
            yield f"one role was asked to have no replica: {counts}"
            return


def named(scenario: Scenario, seen: Evidence) -> Iterator[str]:
    """Check that status names the culprit within half a minute."""
    if scenario.names is None:
        return
    after_s = named_after_s(scenario, seen)
    if after_s is None:
        yield f"status never said anything like /{scenario.names}/"
    elif after_s > NAMED_WITHIN_S:
        yield f"status named the culprit after {after_s:.0f} s only"


def named_after_s(scenario: Scenario, seen: Evidence) -> float | None:
    """Return how long after the fault status named it; what it said before does not count."""
    if scenario.names is None:
        return None
    pattern = re.compile(scenario.names)
    times = (said.at_s for said in seen.said if pattern.search(said.text))
    return next((at_s - seen.fault_s for at_s in sorted(times) if at_s >= seen.fault_s), None)


def recovered(scenario: Scenario, seen: Evidence) -> Iterator[str]:
    """Check that the pool is whole again in time, and stays so."""
    if not seen.moments:
        return
    took_s = seen.recovered_s
    allowed_s = scenario.recovers_s + seen.undone_s - seen.fault_s
    if took_s is None:
        yield "the pool was not whole again at the end"
    elif took_s > allowed_s:
        yield f"the pool was whole again after {took_s:.0f} s, not {allowed_s:.0f} s"


def as_promised(scenario: Scenario, seen: Evidence) -> Iterator[str]:
    """Yield the violations of promises that only this scenario makes."""
    del scenario
    yield from seen.broken


INVARIANTS: tuple[Check, ...] = (
    accounted,
    right,
    ended,
    in_budget,
    no_blind_shrink,
    together,
    named,
    recovered,
    as_promised,
)


def violations(scenario: Scenario, seen: Evidence) -> list[str]:
    """Return every violation of every invariant."""
    return [sentence for check in INVARIANTS for sentence in check(scenario, seen)]
