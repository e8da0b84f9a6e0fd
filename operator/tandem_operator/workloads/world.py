"""The input of `plan`: the whole observed state of one pool at one moment, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tandem_operator.api import InferencePool, InvalidPoolError
from tandem_operator.api.v1alpha1.scaling import MetricsSource
from tandem_operator.core.observation import EngineSample, Latency, RouterReport
from tandem_operator.core.quota.share import Quota

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The basis of NetworkPolicies of pools.

    Attributes:
        operator_namespace: namespace of the operator's pods.
        metrics_from: peers that may read metrics, in the form of a NetworkPolicy.
        engine_egress: further egress rules of engine pods, in the form of a NetworkPolicy.
    """

    operator_namespace: str
    metrics_from: tuple[Object, ...] = ()
    engine_egress: tuple[Object, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPrometheus:
    """The Prometheus server of the installation, for pools that name no other.

    Attributes:
        headers: headers of each query, such as the tenant's. They are no secrets.
        token_file: path of the bearer token; `None`: it needs none.
        authority_file: path of the only trusted authorities; `None`: those of the operator's image.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    token_file: str | None = None
    authority_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The settings of the operator's installation, and the features of its cluster.

    Attributes:
        launcher_image: image of the init container in every engine pod.
        any_pod_template: whether pools may ask for pods that the restrictions refuse.
        any_extra_args: whether pools may set any option of vLLM.
        network: basis of NetworkPolicies for pools; `None`: it makes none.
        pod_monitors: whether the API server serves the PodMonitor kind.
        gateway_routes: whether pools may have HTTPRoutes.
        serves_routes: whether the API server serves the HTTPRoute kind.
        pool_roles: whether it serves the PoolRole kind, which an older CRD chart lacks.
        prometheus_urls: the Prometheus servers that pools may name; empty: see `addresses`.
        prometheus: the server of pools that name none, if there is one.
        hub_token_secrets: names of the Secrets that may hold pools' credentials for weights;
            empty: any of the pool's namespace.
        cache_host_paths: folders of nodes that pools may use as cache; `None`: not known, so any.
        lease: the operator's Lease, as NAMESPACE/NAME; `None`: it holds none.
    """

    router_image: str
    launcher_image: str
    engine_image_cpu: str
    engine_image_gpu: str
    any_pod_template: bool = False
    any_extra_args: bool = False
    network: Network | None = None
    pod_monitors: bool = False
    gateway_routes: bool = False
    serves_routes: bool = False
    pool_roles: bool = False
    prometheus_urls: tuple[str, ...] = ()
    prometheus: InstalledPrometheus | None = None
    hub_token_secrets: tuple[str, ...] = ()
    cache_host_paths: tuple[str, ...] | None = ()
    lease: str | None = None


@dataclass(frozen=True, slots=True)
class Rival:
    """Another manager that sets replicas that Tandem manages.

    Attributes:
        who: the manager, in words.
        left_alone: whether Tandem writes no count meanwhile.
    """

    who: str
    left_alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One pool as its API server, routers and engines show it now.

    Attributes:
        pool: the InferencePool as stored, status included.
        parsed: the same as the API's types, or its error; `None`: `plan` parses it.
        children: every live object whose controller is this pool (all kinds that `plan` builds),
            whole and with `apiVersion` and `kind`. A missing one is created.
        pods: every live pod of the pool's own ReplicaSets, router pods included.
        router_pods: router pods that were asked for their arrivals.
        metrics_source: the source of `engines` and `latency`.
        prometheus_passed_over: whether the pods were asked because Prometheus did not know enough.
        prometheus_fault: why the server gave no data at all, in words that stay the same.
        memory: the last `Plan.memory` of this process; `None` after a start (it is then read from
            the ConfigMap among `children`).
        memory_refused_s: when the API server refused the memory, if it has accepted none since.
        cordoned: nodes that are being drained and take no new pods; `None` without the right to
            read them.
        quota: the GPUs that it shares with the other pools of its namespace; `None` if there is no
            quota on them, or its replicas hold none.
        rivals: other managers of replicas, by component.
        asked: replicas that PoolRoles of External roles ask for, by role, if a client other than
            Tandem wrote them.
        waiting: autoscalers, by the Managed role whose PoolRole they would scale if it existed.
    """

    pool: Mapping[str, Any]
    parsed: InferencePool | InvalidPoolError | None = None
    installation: Installation
    children: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    engines: tuple[EngineSample, ...] = ()
    routers: tuple[RouterReport, ...] = ()
    router_pods: int = 0
    latency: Latency | None = None
    metrics_source: MetricsSource = MetricsSource.DIRECT
    prometheus_passed_over: bool = False
    prometheus_fault: str | None = None
    memory: Any = None
    memory_refused_s: float | None = None
    cordoned: frozenset[str] | None = None
    quota: Quota | None = None
    rivals: Mapping[str, Rival] = field(default_factory=dict)
    asked: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)
