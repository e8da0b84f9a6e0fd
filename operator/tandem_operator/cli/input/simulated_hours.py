"""The moment at which simulated time begins, and the periods of schedules from then on."""

from datetime import UTC, datetime

from tandem_operator.api import InferencePool
from tandem_operator.cli.command_errors import BadInputError
from tandem_operator.core.spec import Period
from tandem_operator.sim.policy import EPOCH_S
from tandem_operator.workloads.checks.unreadable_schedules import schedule_objections
from tandem_operator.workloads.schedule_periods import periods_within

USUAL_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
"""A Monday, at midnight."""
AFTER_S = 7200.0
"""Time after the last request that a simulation may take, and more."""


def moment(given: str | None) -> datetime:
    """The moment that `--begin` names; UTC where it names no offset.

    Raises:
        BadInputError: it is no moment.
    """
    if given is None:
        return USUAL_BEGIN
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise BadInputError(
            "--begin must be a date and a time of day, such as 2026-11-30T08:00+01:00; got"
            f" {given!r}"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def simulated_periods(pool: InferencePool, *, begin: datetime, span_s: float) -> tuple[Period, ...]:
    """The periods of the pool's schedules in simulated time.

    Raises:
        BadInputError: a schedule that the operator would refuse.
    """
    for objection in schedule_objections(pool.spec.scaling):
        raise BadInputError(f"spec.{objection}")
    return periods_within(
        pool.spec.scaling.schedules or (),
        from_s=begin.timestamp(),
        span_s=span_s + AFTER_S,
        begins_s=EPOCH_S,
    )


def notes_on_hours(pool: InferencePool, *, begin: datetime) -> list[str]:
    """When simulated time begins, where schedules go by it."""
    if not pool.spec.scaling.schedules:
        return []
    return [f"simulated time begins at {begin:%a %Y-%m-%d %H:%M} {begin.tzname()} (--begin)."]
