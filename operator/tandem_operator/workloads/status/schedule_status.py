"""The schedules of a pool, as its status tells them."""

from tandem_operator.api import ScheduleStatus
from tandem_operator.core.spec import Period
from tandem_operator.workloads.status.conditions import rfc3339
from tandem_operator.workloads.status.pool_facts import PoolFacts


def schedules_status(facts: PoolFacts) -> list[ScheduleStatus] | None:
    """Return each schedule, and when it begins and ends; `None` without any."""
    by_name: dict[str, list[Period]] = {name: [] for name in facts.schedules}
    for period in facts.policy.periods:
        by_name[period.schedule].append(period)
    return [_one(name, found, facts.now_s) for name, found in by_name.items()] or None


def _one(name: str, periods: list[Period], now_s: float) -> ScheduleStatus:
    now = next((p for p in periods if p.start_s <= now_s and not p.over(now_s)), None)
    coming = min((p.start_s for p in periods if p.start_s > now_s), default=None)
    return ScheduleStatus(
        name=name,
        until=None if now is None or now.end_s is None else rfc3339(now.end_s),
        next=None if coming is None else rfc3339(coming),
    )
