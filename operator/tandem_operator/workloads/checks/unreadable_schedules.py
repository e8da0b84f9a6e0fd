"""Schedules that no clock can follow: expressions and time zones that a CRD cannot look up."""

from collections.abc import Iterator

from tandem_operator.api import Scaling
from tandem_operator.workloads.objection import Objection, name_objections
from tandem_operator.workloads.schedule_periods import is_cron, time_zone


def schedule_objections(scaling: Scaling) -> Iterator[Objection]:
    """Why a schedule never begins; none for those that do."""
    for index, schedule in enumerate(scaling.schedules or ()):
        item = f"scaling.schedules[{index}]"
        yield from name_objections(schedule.name, f"{item}.name", example="office")
        if not is_cron(schedule.start):
            why = f"{schedule.start!r} names no time; write for example 0 8 * * 1-5"
            yield Objection(f"{item}.start", f"{item}.start: {why}")
        if time_zone(schedule.time_zone) is None:
            why = f"{schedule.time_zone!r} is no name of the IANA database"
            example = "write for example Europe/Berlin"
            yield Objection(f"{item}.timeZone", f"{item}.timeZone: {why}; {example}")
