"""The sleep and the wakes of a pool that may go to zero, for its status and its metrics."""

from collections.abc import Mapping

from tandem_operator.api import SleepStatus, WakeStatus, format_duration
from tandem_operator.core.objective.rest import Wake
from tandem_operator.workloads.status.conditions import rfc3339
from tandem_operator.workloads.status.pool_facts import PoolFacts


def sleep_status(facts: PoolFacts) -> SleepStatus | None:
    """Return the sleep of the pool for its status; `None` if it never sleeps."""
    rest, wake = facts.decision.rest, facts.decision.rest.wake
    if facts.policy.sleep_after_s is None:
        return None
    asleep_since_s = rest.asleep_since_s if facts.asleep else None
    return SleepStatus(
        since=None if asleep_since_s is None else rfc3339(asleep_since_s),
        wakes=rest.wakes,
        last_wake=None
        if wake is None
        else WakeStatus(
            time=rfc3339(wake.asked_s),
            **{name: format_duration(part_s) for name, part_s in wake_parts(wake).items()},
        ),
    )


def wake_parts(wake: Wake) -> Mapping[str, float]:
    """Return the seconds of a wake by part, so far. Times of Kubernetes are whole seconds."""
    moments = (
        ("noticed", wake.decided_s),
        ("scheduled", wake.scheduled_s),
        ("started", wake.ready_s),
        ("first_token", wake.first_token_s),
    )
    parts: dict[str, float] = {}
    last_s = wake.asked_s
    for name, at_s in moments:
        if at_s is None:
            break
        parts[name] = max(0.0, at_s - last_s)
        last_s = max(last_s, at_s)
    return parts
