"""`spec.scaling` and `spec.metrics`: how far Tandem may go, and what it goes by."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tandem_operator.api.rules import ApiModel
from tandem_operator.api.v1alpha1.named_object import NamedObject
from tandem_operator.api.values import (
    Count,
    Duration,
    duration_rule,
    url_rule,
)


class ScalingMode(StrEnum):
    """What Tandem may do with the counts it decides."""

    AUTO = "Auto"
    RECOMMEND = "Recommend"
    PAUSED = "Paused"


class Scaling(ApiModel):
    """How far and how fast Tandem may go. An edit restarts nothing."""

    mode: ScalingMode = ScalingMode.AUTO
    """Auto: Tandem sets replica counts. Recommend: it decides and shows, but sets nothing. Paused:
    counts stay as they are."""
    gpu_budget: Annotated[Count, Field(ge=1, le=100_000)] | None = None
    """Most GPUs of both fleets together, starting and terminating pods included; on CPU a replica
    counts as 1. A rollout keeps within it too: it replaces one role's pods at a time, and a pool at
    its budget gives up a replica of a Managed role meanwhile, or else may hold one more. Without
    it: the replica bounds alone."""
    priority: Annotated[Count, Field(ge=-1000, le=1000)] = 0
    """Rank of the pool where a ResourceQuota on its GPUs, such as requests.nvidia.com/gpu, is too
    small for all pools of the namespace. The minReplicas of all pools come first, then the highest
    priority. Among equals, the pool that serves more good requests with a GPU comes first."""
    stabilization: Annotated[
        Duration,
        duration_rule(name="scaling.stabilization", example="60s", least="0s", most="1h"),
    ] = "10s"
    """Shortest time for which fewer replicas must have been enough before a fleet shrinks. They are
    enough if they carry the forecast for the start-up time of a replica and one minute more. Tandem
    waits longer where bursts recur and the error budget requires it."""
    max_step: Annotated[Count, Field(ge=1, le=1000)] | None = None
    """Most replicas that one decision adds to or takes from a fleet. Without it: no
    limit."""


class MetricsSource(StrEnum):
    """Where engine and router metrics are read."""

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
    """Base URL, such as http://prometheus.monitoring.svc:9090. Where the installation lists servers
    (pools.prometheusUrls), it is one of them; where it does not, any but the operator's own pod,
    its node, the cloud's metadata and the API server. The default is the installation's server."""
    token_secret_ref: NamedObject | None = None
    """Secret with a bearer token as `token`, only for https. The operator needs `get` of it."""
    ca_config_map_ref: NamedObject | None = None
    """ConfigMap with the only authorities to trust as `ca.crt`."""
    tenant: Annotated[str, Field(max_length=150)] | None = None
    """Tenant of Mimir or Cortex."""


class Metrics(ApiModel):
    """Where the numbers behind decisions come from."""

    source: MetricsSource = MetricsSource.AUTO
    """Auto: Prometheus where a server is known and its samples are fresh, else the pods themselves.
    Prometheus or Direct: only that."""
    prometheus: Prometheus | None = None
    """The Prometheus server to ask. The default is the installation's."""
