"""NetworkPolicies of a pool: the peers that may reach its pods, and the engines' own targets. Pure.

Ports are given by number, so they hold for every container of a pod, its sidecars included. A
network always lets a node reach its own pods, so probes need no rule.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tandem_contracts.names import CONTROL_PORT, HTTP_PORT, ROUTER_INTERNAL_PORT
from tandem_operator.api import Management, PoolSpec
from tandem_operator.core.role import Role
from tandem_operator.workloads.labels import labels_of, selector_of
from tandem_operator.workloads.pool_names import ROUTER, PoolName
from tandem_operator.workloads.world import Installation, Network, Object

DNS_PORT = 53
WEB_PORTS = (443, 80)
_OTHER = {Role.PREFILL: Role.DECODE, Role.DECODE: Role.PREFILL}
# NIXL's handshake has its own port; UCX uses any free port for the blocks. Only the operator may
# use the launcher's port between them.
_LEAST_PORT, _MOST_PORT = 1024, 65535
_KV_PORTS = (
    {"protocol": "TCP", "port": _LEAST_PORT, "endPort": CONTROL_PORT - 1},
    {"protocol": "TCP", "port": CONTROL_PORT + 1, "endPort": _MOST_PORT},
)


def network_policies(
    spec: PoolSpec, *, name: PoolName, installation: Installation
) -> tuple[Object, ...]:
    """Return one policy for each component; none if another party guards the pool's pods."""
    network = installation.network
    if network is None or spec.network_policies is Management.EXTERNAL:
        return ()
    return (*(_engines(spec, role, name, network) for role in Role), _routers(name, network))


def _engines(spec: PoolSpec, role: Role, name: PoolName, network: Network) -> Object:
    other = [_component(name, _OTHER[role])]
    ingress = [
        _ingress([_component(name, ROUTER)], _tcp(HTTP_PORT)),
        _ingress([_operator(network)], _tcp(HTTP_PORT, CONTROL_PORT)),
        _ingress(other, _KV_PORTS),
        *_metrics(network, HTTP_PORT),
    ]
    egress: list[Mapping[str, Any]] = [
        {"to": other, "ports": list(_KV_PORTS)},
        {"ports": [{"protocol": protocol, "port": DNS_PORT} for protocol in ("UDP", "TCP")]},
    ]
    if spec.model.source.is_remote:
        anywhere = [{"ipBlock": {"cidr": cidr}} for cidr in ("0.0.0.0/0", "::/0")]
        egress.append({"to": anywhere, "ports": _tcp(*WEB_PORTS)})
    rules = {"ingress": ingress, "egress": [*egress, *network.engine_egress]}
    return _policy(name, role, ["Ingress", "Egress"], rules)


def _routers(name: PoolName, network: Network) -> Object:
    ingress = [
        # Clients, wherever they are.
        {"ports": _tcp(HTTP_PORT)},
        # Routers tell each other of requests that end engines.
        _ingress([_component(name, ROUTER)], _tcp(ROUTER_INTERNAL_PORT)),
        _ingress([_operator(network)], _tcp(ROUTER_INTERNAL_PORT)),
        *_metrics(network, ROUTER_INTERNAL_PORT),
    ]
    # Connections from routers are not limited: routers watch the API server, and no policy can name
    # its address.
    return _policy(name, ROUTER, ["Ingress"], {"ingress": ingress})


def _policy(name: PoolName, component: str, types: list[str], rules: Mapping[str, Any]) -> Object:
    head = name.head(
        api_version="networking.k8s.io/v1",
        kind="NetworkPolicy",
        child=name.child(component),
        labels=labels_of(name, component),
    )
    selected = {"matchLabels": selector_of(name, component)}
    return head | {"spec": {"podSelector": selected, "policyTypes": types, **rules}}


def _ingress(peers: list[Object], ports: Iterable[Object]) -> Object:
    return {"from": peers, "ports": list(ports)}


def _metrics(network: Network, port: int) -> list[Object]:
    peers = list(network.metrics_from)
    # A rule without a peer would admit every pod.
    return [_ingress(peers, _tcp(port))] if peers else []


def _component(name: PoolName, component: str) -> Object:
    return {"podSelector": {"matchLabels": selector_of(name, component)}}


def _operator(network: Network) -> Object:
    labels = {"app.kubernetes.io/name": "tandem", "app.kubernetes.io/component": "operator"}
    namespace = {"kubernetes.io/metadata.name": network.operator_namespace}
    return {
        "namespaceSelector": {"matchLabels": namespace},
        "podSelector": {"matchLabels": labels},
    }


def _tcp(*ports: int) -> list[Object]:
    return [{"protocol": "TCP", "port": port} for port in ports]
