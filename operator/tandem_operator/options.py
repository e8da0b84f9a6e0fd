"""The start options of the operator's process: command line, and images of the environment."""

import argparse
import json
import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from tandem_operator.kube.lease_name import lease_name
from tandem_operator.metrics.installed_prometheus import installed_prometheus
from tandem_operator.workloads.world import Installation, Network, Object


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """The start options of the process."""

    namespaces: tuple[str, ...]
    metrics_port: int
    health_port: int
    leader_elect: bool
    lease_namespace: str
    identity: str
    installation: Installation

    @property
    def lease_name(self) -> str:
        """Return one name for each set of pools, so operators of other pools do not wait."""
        return lease_name(self.namespaces)

    @property
    def places(self) -> tuple[str | None, ...]:
        """Return the namespaces in which pools are listed; `None`: all of them at once."""
        return self.namespaces or (None,)


def options_from(arguments: Sequence[str] | None) -> OperatorOptions:
    """Return the options from the command line, and the images from the environment."""
    parser = argparse.ArgumentParser(
        prog="tandem-operator",
        description="The operator's process. Exit codes: 0 asked to stop, 1 fault, 3 lease lost.",
        # The chart refuses options that it sets by their whole names.
        allow_abbrev=False,
    )
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        help="serve only the pools of this namespace; repeat it for each further one",
    )
    parser.add_argument("--metrics-port", type=int, default=8080)
    parser.add_argument("--health-port", type=int, default=8081)
    parser.add_argument(
        "--leader-elect",
        action="store_true",
        help="act only while holding a Lease; needed for more than one replica",
    )
    parser.add_argument("--lease-namespace", default="tandem-system")
    parser.add_argument(
        "--allow-any-pod-template",
        action="store_true",
        help="let pools ask for host access, other service accounts and Secrets",
    )
    parser.add_argument(
        "--allow-any-extra-args",
        action="store_true",
        help="let pools set options of vLLM that load code, read files, open ports or send data",
    )
    parser.add_argument(
        "--no-network-policies",
        action="store_true",
        help="write no NetworkPolicies for pools",
    )
    parser.add_argument(
        "--metrics-from",
        type=_objects,
        default=(),
        metavar="JSON",
        help="peers of a NetworkPolicy that may read metrics of engines and routers, as a list",
    )
    parser.add_argument(
        "--engine-egress",
        type=_objects,
        default=(),
        metavar="JSON",
        help="further egress rules of a NetworkPolicy for engine pods, as a list",
    )
    parser.add_argument(
        "--prometheus-url",
        action="append",
        default=[],
        metavar="URL",
        help="a Prometheus server that pools may name; repeat it for each further one; without it,"
        " any but this pod, its node, the cloud's metadata and the API server",
    )
    parser.add_argument(
        "--prometheus",
        type=installed_prometheus,
        metavar="JSON",
        help="the Prometheus server of pools that name none: url, headers, tokenFile and"
        " authorityFile",
    )
    parser.add_argument(
        "--hub-token-secret",
        action="append",
        default=[],
        metavar="NAME",
        help="a Secret with credentials for weights that pools may name; repeat it for each one;"
        " without it, any Secret of the pool's namespace",
    )
    parser.add_argument(
        "--cache-host-path",
        action="append",
        default=[],
        metavar="PATH",
        help="a folder of nodes that pools may cache in; repeat it for each one; without it, none",
    )
    parser.add_argument(
        "--gateway-routes",
        action="store_true",
        help="write HTTPRoutes of the Gateway API for pools that ask for one (router.gateway)",
    )
    parsed = parser.parse_args(arguments)
    return OperatorOptions(
        namespaces=_namespaces_of(parsed),
        metrics_port=parsed.metrics_port,
        health_port=parsed.health_port,
        leader_elect=parsed.leader_elect,
        lease_namespace=parsed.lease_namespace,
        identity=f"{socket.gethostname()}_{secrets.token_hex(4)}",
        installation=Installation(
            router_image=os.environ.get("TANDEM_ROUTER_IMAGE", ""),
            launcher_image=os.environ.get("TANDEM_LAUNCHER_IMAGE", ""),
            engine_image_cpu=os.environ.get("TANDEM_ENGINE_CPU_IMAGE", ""),
            engine_image_gpu=os.environ.get("TANDEM_ENGINE_GPU_IMAGE", ""),
            any_pod_template=parsed.allow_any_pod_template,
            any_extra_args=parsed.allow_any_extra_args,
            network=_network_of(parsed),
            gateway_routes=parsed.gateway_routes,
            prometheus_urls=tuple(parsed.prometheus_url),
            prometheus=parsed.prometheus,
            hub_token_secrets=tuple(parsed.hub_token_secret),
            cache_host_paths=tuple(parsed.cache_host_path),
            lease=_lease_of(parsed),
        ),
    )


def _namespaces_of(parsed: argparse.Namespace) -> tuple[str, ...]:
    return tuple(sorted({*parsed.namespace}))


def _lease_of(parsed: argparse.Namespace) -> str | None:
    if not parsed.leader_elect:
        return None
    return f"{parsed.lease_namespace}/{lease_name(_namespaces_of(parsed))}"


def _network_of(parsed: argparse.Namespace) -> Network | None:
    if parsed.no_network_policies:
        return None
    # The Lease is where the operator is.
    return Network(
        operator_namespace=parsed.lease_namespace,
        metrics_from=parsed.metrics_from,
        engine_egress=parsed.engine_egress,
    )


def _objects(text: str) -> tuple[Object, ...]:
    """Return a list of objects in JSON."""
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError(f"a list of objects was expected, not {text!r}")
    return tuple(found)
