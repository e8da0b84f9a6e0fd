"""`spec.scaling` and `spec.metrics`: the limits of scaling, and the source of metrics."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tandem_operator.api.rules import ApiModel, ListMap
from tandem_operator.api.v1alpha1.named_object import NamedObject
from tandem_operator.api.v1alpha1.schedule import Schedule
from tandem_operator.api.values import (
    Count,
    Duration,
    duration_rule,
    url_rule,
)


class ScalingMode(StrEnum):
    """How far Tandem sets the counts that it decides on."""

    AUTO = "Auto"
    RECOMMEND = "Recommend"
    PAUSED = "Paused"


class Scaling(ApiModel):
    """Limits and speed of scaling. An edit restarts nothing."""

    mode: ScalingMode = ScalingMode.AUTO
    """Auto: Tandem sets replica counts. Recommend: it decides and shows counts, but sets none.
    Paused: counts stay as they are."""
    gpu_budget: Annotated[Count, Field(ge=1, le=100_000)] | None = None
    """Most GPUs of both fleets together, starting and terminating pods included; on CPU a replica
    counts as 1. A rollout stays inside the budget too: it replaces one role's pods at a time. A
    pool at its budget gives up a replica of a Managed role meanwhile, or else may hold one more.
    Without it: only the replica bounds apply."""
    priority: Annotated[Count, Field(ge=-1000, le=1000)] = 0
    """Rank of the pool if a ResourceQuota on its GPUs, such as requests.nvidia.com/gpu, is too
    small for all pools of the namespace. The minReplicas of all pools come first, then the highest
    priority. Among equals, the pool that serves more good requests with a GPU comes first."""
    stabilization: Annotated[
        Duration,
        duration_rule(name="scaling.stabilization", example="60s", least="0s", most="1h"),
    ] = "10s"
    """Shortest time for which fewer replicas must have been enough before a fleet shrinks. They are
    enough if they can serve the forecast for the start-up time of a replica and one minute more.
    Tandem waits longer if bursts recur and the error budget requires it."""
    scale_to_zero_after: (
        Annotated[
            Duration,
            duration_rule(name="scaling.scaleToZeroAfter", example="10m", least="1m", most="168h"),
        ]
        | None
    ) = None
    """Time without a request before both roles go to zero replicas. The routers stay and hold the
    next request, which wakes both roles. Tandem waits longer if pauses are so short that starts
    cost more. minReplicas holds while the pool is awake. Without it: never."""
    schedules: (
        Annotated[
            list[Schedule],
            Field(max_length=16),
            ListMap("name"),
        ]
        | None
    ) = None
    """Known hours with a minimum of replicas, such as office hours. While a schedule is in force,
    the pool does not sleep. Several schedules can be in force at once."""
    max_step: Annotated[Count, Field(ge=1, le=1000)] | None = None
    """Most replicas that one decision adds to or takes from a fleet. Without it: no
    limit."""


class MetricsSource(StrEnum):
    """Source of engine and router metrics."""

    AUTO = "Auto"
    PROMETHEUS = "Prometheus"
    DIRECT = "Direct"


class Prometheus(ApiModel):
    """A Prometheus server that scrapes the pool's pods."""

    url: (
        Annotated[
            str,
            Field(max_length=512),
            url_rule(name="prometheus.url", example="http://prometheus.monitoring.svc:9090"),
        ]
        | None
    ) = None
    """Base URL, such as http://prometheus.monitoring.svc:9090. If the installation lists servers
    (pools.prometheusUrls), it must be one of them. If not, it can be any server but the operator's
    own pod, its node, the cloud's metadata and the API server. The default is the installation's
    server."""
    token_secret_ref: NamedObject | None = None
    """Secret with a bearer token as `token`, only for https. The operator needs the right to `get`
    it."""
    ca_config_map_ref: NamedObject | None = None
    """ConfigMap with `ca.crt`: the only certificate authorities to trust."""
    tenant: Annotated[str, Field(max_length=150)] | None = None
    """Tenant of Mimir or Cortex."""


class Metrics(ApiModel):
    """Source of the numbers behind decisions."""

    source: MetricsSource = MetricsSource.AUTO
    """Auto: Prometheus if a server is known and its samples are fresh, else the pods themselves.
    Prometheus or Direct: only this source."""
    prometheus: Prometheus | None = None
    """The Prometheus server to ask. The default is the installation's."""
