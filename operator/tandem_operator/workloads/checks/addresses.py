"""The Prometheus servers that a pool's author may make the operator query. Pure.

The author of a pool chooses the URL, but the operator's process may reach addresses that the author
may not. If the installation has a list, only its servers are queried. Without a list, any address
is allowed except those of this pod, this node, its cloud and the API server.
"""

import ipaddress
from collections.abc import Collection

EXAMPLE = "http://prometheus.monitoring.svc:9090"
_OWN_NAMES = ("localhost", "kubernetes", "kubernetes.default")
# Metadata and agents of clouds, beside the link-local one: Alibaba, Azure, Oracle, AWS on IPv6.
_CLOUD = frozenset(
    map(
        ipaddress.ip_address,
        ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    )
)


def objection(url: str, *, allowed: Collection[str]) -> str | None:
    """Return why the operator does not query this server; `None` if it does."""
    field = "metrics.prometheus.url"
    if allowed:
        if _plain(url) in map(_plain, allowed):
            return None
        some = " or ".join(sorted(allowed)[:3])
        return f"{field} must be one that the operator was installed with; write {some}"
    why = refusal_of(_host(url), api_server=None)
    return None if why is None else f"{field}: {why}; write for example {EXAMPLE}"


def is_same(url: str, other: str) -> bool:
    """Return whether two URLs name the same server."""
    return _plain(url) == _plain(other)


def refusal_of(host: str, *, api_server: str | None) -> str | None:
    """Return why no connection is made to a name or an address; `None` if it is allowed."""
    if host == api_server or _without_domain(host) in _OWN_NAMES or host.endswith(".localhost"):
        return f"{host} is the operator's own pod or the API server"
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    inside = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None) or address
    if inside.is_loopback or inside.is_unspecified:
        return f"{host} is the operator's own pod"
    if inside.is_link_local or inside in _CLOUD:
        return f"{host} belongs to the node or its cloud provider"
    if inside.is_multicast or inside.is_reserved:
        return f"{host} is not the address of a server"
    return None


def _plain(url: str) -> str:
    scheme, _, rest = url.rstrip("/").partition("://")
    server, slash, path = rest.partition("/")
    return f"{scheme.lower()}://{server.lower()}{slash}{path}"


def _host(url: str) -> str:
    server = url.partition("://")[2].partition("/")[0].lower()
    if server.startswith("["):
        return server[1:].partition("]")[0]
    return server.partition(":")[0]


def _without_domain(host: str) -> str:
    for end in (".svc.cluster.local", ".svc"):
        host = host.removesuffix(end)
    return host
