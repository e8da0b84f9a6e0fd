"""The HTTPRoute by which Gateways reach a pool's routers. Pure."""

from typing import Any

from tandem_contracts.names import ROUTER_SERVICE_PORT
from tandem_operator.api import PoolSpec
from tandem_operator.api.v1alpha1.gateway import Gateway
from tandem_operator.workloads.builders.route_names import route_objections
from tandem_operator.workloads.labels import labels_of
from tandem_operator.workloads.pool_names import ROUTER, PoolName
from tandem_operator.workloads.world import Installation, Object

API_VERSION, KIND = "gateway.networking.k8s.io/v1", "HTTPRoute"
# Clients need no other path of the routers: the rest is probes, and metrics at another port.
_API = {"path": {"type": "PathPrefix", "value": "/v1"}}
# The router ends every request by its own time-outs; the default of many Gateways is 15 s.
_NO_LIMIT = "0s"


def gateway_route(spec: PoolSpec, *, name: PoolName, installation: Installation) -> Object | None:
    """Return the route that the pool asks for, if it can exist."""
    gateway = spec.router.gateway
    if gateway is None or not (installation.gateway_routes and installation.serves_routes):
        return None
    if any(route_objections(gateway)):
        return None
    head = name.head(
        api_version=API_VERSION,
        kind=KIND,
        child=name.child(ROUTER),
        labels=labels_of(name, ROUTER),
    )
    rule = {
        "matches": _matches(gateway, spec.model.names),
        "backendRefs": [{"name": name.child(ROUTER), "port": ROUTER_SERVICE_PORT}],
        "timeouts": {"request": _NO_LIMIT},
    }
    wanted: Object = {
        "parentRefs": [each.to_object() for each in gateway.parent_refs],
        "rules": [rule],
    }
    if gateway.hosts:
        wanted["hostnames"] = list(gateway.hosts)
    return head | {"spec": wanted}


def kept_routes(spec: PoolSpec, *, name: PoolName) -> frozenset[tuple[str, str]]:
    """Return the route that must not be deleted: one that cannot be written now stays unchanged."""
    wanted = spec.router.gateway is not None
    return frozenset({(KIND, name.child(ROUTER))} if wanted else ())


def _matches(gateway: Gateway, models: tuple[str, ...]) -> list[dict[str, Any]]:
    if gateway.model_header is None:
        return [_API]
    return [
        {**_API, "headers": [{"type": "Exact", "name": gateway.model_header, "value": model}]}
        for model in models
    ]
