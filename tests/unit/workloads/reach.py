"""May one reach another's port, by NetworkPolicies: a small evaluator."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

OURS = {"tandem-inference.io/pool": "tiny"}


@dataclass(frozen=True, slots=True)
class Peer:
    """A pod, or without a namespace a peer outside the cluster."""

    name: str
    ip: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def namespace_labels(self) -> Mapping[str, str]:
        """Return the labels of its namespace as Kubernetes sets them."""
        return {"kubernetes.io/metadata.name": self.namespace}


def pool_pod(component: str, *, pool: str = "tiny", namespace: str = "serving") -> Peer:
    """Return a pod with the labels that a pool's component has."""
    labels = {"tandem-inference.io/pool": pool, "tandem-inference.io/role": component}
    return Peer(f"{pool}-{component} in {namespace}", "10.1.0.1", namespace, labels)


def may_reach(
    policies: Iterable[Mapping[str, Any]],
    source: Peer,
    target: Peer,
    port: int,
    protocol: str = "TCP",
) -> bool:
    """Return whether no policy of either end stands in the way."""
    ends = {"Ingress": (target, source), "Egress": (source, target)}
    given = list(policies)
    return all(
        _allowed(given, direction, *pair, port=(port, protocol)) for direction, pair in ends.items()
    )


def _allowed(
    policies: list[Mapping[str, Any]],
    direction: str,
    pod: Peer,
    other: Peer,
    *,
    port: tuple[int, str],
) -> bool:
    selecting = [
        each
        for each in policies
        if pod.namespace == each["metadata"]["namespace"]
        and direction in each["spec"]["policyTypes"]
        and _selects(each["spec"]["podSelector"], pod.labels)
    ]
    end = {"Ingress": "from", "Egress": "to"}[direction]
    return not selecting or any(
        _is_one_of(rule.get(end), other, policy["metadata"]["namespace"])
        and _is_open(rule.get("ports"), *port)
        for policy in selecting
        for rule in policy["spec"].get(direction.lower()) or ()
    )


def _is_one_of(peers: Any, other: Peer, namespace: str) -> bool:
    return not peers or any(_is(peer, other, namespace) for peer in peers)


def _is(peer: Mapping[str, Any], other: Peer, namespace: str) -> bool:
    if "ipBlock" in peer:
        address, block = ip_address(other.ip), ip_network(peer["ipBlock"]["cidr"])
        return address.version == block.version and address in block
    if not other.namespace:
        return False
    if "namespaceSelector" in peer:
        if not _selects(peer["namespaceSelector"], other.namespace_labels):
            return False
    elif other.namespace != namespace:
        return False
    return _selects(peer.get("podSelector", {}), other.labels)


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    assert not selector.keys() - {"matchLabels"}, "this evaluator knows no other selector"
    return selector.get("matchLabels", {}).items() <= dict(labels).items()


def _is_open(ports: Any, port: int, protocol: str) -> bool:
    return not ports or any(
        each.get("protocol", "TCP") == protocol
        and each["port"] <= port <= each.get("endPort", each["port"])
        for each in ports
    )
