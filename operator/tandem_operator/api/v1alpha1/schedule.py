"""`spec.scaling.schedules`: replicas that a pool holds at known hours."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from tandem_operator.api.rules import ApiModel, Rule
from tandem_operator.api.values import Count, Duration, duration_rule, text_rule

_FIELD = "[0-9A-Za-z*/,#-]+"


class ScheduledFleet(ApiModel):
    """One fleet while a schedule is in force."""

    min_replicas: Annotated[Count, Field(ge=1, le=1000)]
    """Fewest replicas of the fleet. If several schedules are in force, the highest number holds."""


class Schedule(ApiModel):
    """Hours in which the pool holds more replicas, or does not sleep."""

    name: Annotated[str, Field(max_length=32)]
    """Name of the schedule in status and Events, such as office."""
    start: Annotated[
        str,
        Field(max_length=100),
        text_rule(
            pattern=f"^{_FIELD}( +{_FIELD}){{4}}$",
            message=(
                "schedules.start must be a cron expression of five fields; write for example"
                " 0 8 * * 1-5"
            ),
        ),
    ]
    """Times at which the schedule begins: minute, hour, day of month, month and day of week, as in
    cron. Tandem starts pods earlier, so they are Ready by then."""
    duration: Annotated[
        Duration,
        duration_rule(name="schedules.duration", example="10h", least="1m", most="168h"),
    ]
    """Time for which the schedule is in force after each start."""
    time_zone: Annotated[str, Field(max_length=64)] = "UTC"
    """Time zone of start, such as Europe/Berlin."""
    prefill: ScheduledFleet | None = None
    """Prefill fleet while the schedule is in force."""
    decode: ScheduledFleet | None = None
    """Decode fleet while the schedule is in force."""

    rules: ClassVar = (
        Rule(
            expression="has(self.prefill) || has(self.decode)",
            message=(
                "scaling.schedules needs prefill or decode; write for example prefill:"
                " {minReplicas: 2}"
            ),
            holds=lambda schedule: bool(schedule.prefill or schedule.decode),
        ),
    )

    @property
    def floors(self) -> Mapping[str, int]:
        """The fewest replicas by the name of the role, of the roles that it holds."""
        fleets = {"prefill": self.prefill, "decode": self.decode}
        return {role: fleet.min_replicas for role, fleet in fleets.items() if fleet is not None}
