"""The faults of a simulated pool, with their times in seconds of the simulation."""

from dataclasses import dataclass

from tandem_operator.core.role import Role


@dataclass(frozen=True, slots=True)
class PodLoss:
    """A fault: the oldest ready pod of a role dies; its Deployment makes another."""

    at_s: float
    role: Role


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """A fault: the node of a role's oldest ready pod is reclaimed.

    The pod drains, and dies `notice_s` later.
    """

    at_s: float
    role: Role
    notice_s: float


@dataclass(frozen=True, slots=True)
class SlowPod:
    """A fault: the oldest ready pod of a role takes `factor` times as long for a while."""

    at_s: float
    until_s: float
    role: Role
    factor: float


@dataclass(frozen=True, slots=True)
class MetricsGone:
    """A fault: routers and engines do not answer; pods and replica counts stay known.

    Attributes:
        routers: whether the routers are silent too.
        engine_share: share of the engine pods that are silent, the longest known first.
    """

    at_s: float
    until_s: float
    routers: bool = True
    engine_share: float = 1.0


@dataclass(frozen=True, slots=True)
class CapacityBlocked:
    """A fault: no node takes a new pod."""

    at_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class SlowStarts:
    """A fault: pods bound in this time take `factor` times as long to start."""

    at_s: float
    until_s: float
    factor: float


Fault = PodLoss | Reclaimed | SlowPod | MetricsGone | CapacityBlocked | SlowStarts


def during(fault: MetricsGone | CapacityBlocked | SlowStarts, now_s: float) -> bool:
    """Return whether the fault is active."""
    return fault.at_s <= now_s < fault.until_s
