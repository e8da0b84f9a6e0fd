"""The other objects that pools name, from their manifests as stored in the API server."""

import re
from collections.abc import Iterator
from typing import Any

from tandem_operator.cli.input.cluster_facts import Object
from tandem_operator.cli.input.pool_list import namespace_of
from tandem_operator.core.role import Role

_OF_A_SERVICE = re.compile(r"https?://([a-z0-9-]+)\.([a-z0-9-]+)\.svc([.:/]|$)")
_TEMPLATE = "resourceClaimTemplateName"


def claims_of(pool: Object) -> Iterator[tuple[str, str]]:
    """Yield namespaces and names of the ResourceClaimTemplates that a pool names."""
    own = (_at(pool, "spec", role, "engine", _TEMPLATE) for role in Role)
    for name in (_at(pool, "spec", "engine", "accelerator", _TEMPLATE), *own):
        if name:
            yield namespace_of(pool), str(name)


def prometheus_of(pool: Object) -> tuple[str, str] | None:
    """Return namespace and name of the Service that a pool names as its Prometheus, if any."""
    return service_of(str(_at(pool, "spec", "metrics", "prometheus", "url") or ""))


def service_of(url: str) -> tuple[str, str] | None:
    """Return namespace and name of the Service behind a URL; `None` if it is not a Service's."""
    found = _OF_A_SERVICE.match(url)
    return None if found is None else (found[2], found[1])


def prometheus_token_of(pool: Object) -> tuple[str, str] | None:
    """Return namespace and name of the Secret that a pool names for its Prometheus, if any."""
    name = _at(pool, "spec", "metrics", "prometheus", "tokenSecretRef", "name")
    return None if not name else (namespace_of(pool), str(name))


def asks_for_gateway(pool: Object) -> bool:
    """Return whether a pool asks for routes through Gateways."""
    return _at(pool, "spec", "router", "gateway") is not None


def _at(found: Any, *steps: str) -> Any:
    """Return the value at the end of a path; `None` if a part of the path is missing or null."""
    for step in steps:
        found = (found or {}).get(step)
    return found
