"""`spec.placement`: where pods of all components go, and which of them go first."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tandem_operator.api.rules import ApiModel
from tandem_operator.api.values import Count, DnsName, text_rule

TopologyKey = Annotated[
    str,
    Field(max_length=317),
    text_rule(
        pattern="^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        message="topologyKey must be the name of a node label; write kubernetes.io/hostname",
    ),
]


class WhenUnsatisfiable(StrEnum):
    """What becomes of a pod that would stand unevenly."""

    SCHEDULE_ANYWAY = "ScheduleAnyway"
    DO_NOT_SCHEDULE = "DoNotSchedule"


class TopologySpread(ApiModel):
    """How evenly the pods of one component stand over nodes, zones or racks."""

    topology_key: TopologyKey
    """Node label whose values are the places, such as topology.kubernetes.io/zone."""
    max_skew: Annotated[Count, Field(ge=1, le=1000)] = 1
    """Most pods that one place may have more than another."""
    when_unsatisfiable: WhenUnsatisfiable = WhenUnsatisfiable.SCHEDULE_ANYWAY
    """ScheduleAnyway: even where possible. DoNotSchedule: a pod waits until that is possible."""


class Placement(ApiModel):
    """Where pods of all components go; their podTemplate wins. An edit replaces the pods."""

    priority_class_name: DnsName | None = None
    """PriorityClass of the pods, which says which pods are scheduled first and evicted last.
    Without it: the cluster's default."""
    topology_spread: Annotated[list[TopologySpread], Field(max_length=8)] | None = None
    """How the pods of each component are spread. Without it: over nodes, where that can be."""

    @property
    def spread(self) -> tuple[TopologySpread, ...]:
        """The spread in force."""
        over_nodes = TopologySpread(topology_key="kubernetes.io/hostname")
        return (over_nodes,) if self.topology_spread is None else tuple(self.topology_spread)
