"""`spec.placement`: the nodes for pods of all components, and their priority."""

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
    """Treatment of a pod that would make the spread uneven."""

    SCHEDULE_ANYWAY = "ScheduleAnyway"
    DO_NOT_SCHEDULE = "DoNotSchedule"


class TopologySpread(ApiModel):
    """Spread of the pods of one component over nodes, zones or racks."""

    topology_key: TopologyKey
    """Node label whose values are the domains, such as topology.kubernetes.io/zone."""
    max_skew: Annotated[Count, Field(ge=1, le=1000)] = 1
    """Most pods that one domain may have more than another."""
    when_unsatisfiable: WhenUnsatisfiable = WhenUnsatisfiable.SCHEDULE_ANYWAY
    """ScheduleAnyway: spread evenly if possible. DoNotSchedule: a pod waits until that is
    possible."""


class Placement(ApiModel):
    """Placement of the pods of all components. A podTemplate wins. An edit replaces the pods."""

    priority_class_name: DnsName | None = None
    """PriorityClass of the pods, which says which pods are scheduled first and evicted last.
    Without it: the cluster's default."""
    topology_spread: Annotated[list[TopologySpread], Field(max_length=8)] | None = None
    """Spread of the pods of each component. Without it: over nodes, if possible."""

    @property
    def spread(self) -> tuple[TopologySpread, ...]:
        """The spread in force."""
        over_nodes = TopologySpread(topology_key="kubernetes.io/hostname")
        return (over_nodes,) if self.topology_spread is None else tuple(self.topology_spread)
