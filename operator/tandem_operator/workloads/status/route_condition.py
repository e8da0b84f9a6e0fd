"""The state of a pool's HTTPRoute, in the words of the Gateways' controllers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tandem_operator.api import ConditionType
from tandem_operator.api.v1alpha1.gateway import Gateway, ParentRef
from tandem_operator.workloads.builders.gateway_route import KIND
from tandem_operator.workloads.builders.route_names import route_objections
from tandem_operator.workloads.effects import WriteOutcome
from tandem_operator.workloads.pool_names import ROUTER, PoolName, key_of
from tandem_operator.workloads.status.condition_now import (
    FALSE,
    TRUE,
    UNKNOWN,
    ConditionNow,
    Statement,
)
from tandem_operator.workloads.world import Object, World

LONGEST_REASON = 128
_ASKED = ("Accepted", "ResolvedRefs")
_NOT_ALLOWED = Statement(
    "NotAllowed",
    "This installation writes no routes for pools. Set pools.gatewayRoutes of its chart, or remove"
    " router.gateway. The pool serves inside the cluster.",
)
_NOT_SERVED = Statement(
    "GatewayAPIMissing",
    "The cluster does not serve HTTPRoute of gateway.networking.k8s.io/v1. Install the CRDs of"
    " Gateway API 1.2 or newer. The pool serves inside the cluster.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteFacts:
    """The route that a pool asks for, and all known facts about it.

    Attributes:
        name: name of the HTTPRoute.
        namespace: its own namespace, which Gateways without one share.
        allowed: whether the installation writes routes.
        served: whether the API server knows the kind.
        seen: the route before this pass; `None` if there was none.
        fault: why it was not written in this pass, if so.
        written: whether this pass changed it.
    """

    wanted: Gateway
    name: str
    namespace: str
    allowed: bool
    served: bool
    seen: Object | None
    fault: str | None
    written: bool


def route_facts(
    wanted: Gateway | None, world: World, outcome: WriteOutcome, *, name: PoolName
) -> RouteFacts | None:
    """Return the known facts about the route, if the pool asks for one."""
    if wanted is None:
        return None
    own = (KIND, name.child(ROUTER))
    return RouteFacts(
        wanted=wanted,
        name=own[1],
        namespace=name.namespace,
        allowed=world.installation.gateway_routes,
        served=world.installation.serves_routes,
        seen=next((each for each in world.children if key_of(each) == own), None),
        fault=outcome.route_fault,
        written=outcome.route_written,
    )


def route_accepted(route: RouteFacts) -> ConditionNow:
    """Return whether all Gateways accept the route; the first that does not decides."""
    kind = ConditionType.ROUTE_ACCEPTED
    unwritten = _unwritten(route)
    if unwritten is not None:
        return unwritten.makes(kind, FALSE)
    if route.seen is None or route.written:
        message = f"No Gateway has answered for HTTPRoute {route.name} yet."
        return ConditionNow(kind, UNKNOWN, "Pending", message)
    answers = [_answer(route, route.seen, parent) for parent in route.wanted.parent_refs]
    for status in (FALSE, UNKNOWN):
        told = [each for each in answers if each.status == status]
        if told:
            message = " ".join(each.message for each in told)
            return ConditionNow(kind, status, told[0].reason, message)
    message = f"Every Gateway of router.gateway accepts HTTPRoute {route.name}."
    return ConditionNow(kind, TRUE, "Accepted", message)


def served_hosts(route: RouteFacts) -> list[str] | None:
    """Return the hosts of the present route, while at least one Gateway accepts it."""
    if route.seen is None:
        return None
    given = [_answer(route, route.seen, parent) for parent in route.wanted.parent_refs]
    if all(each.status != TRUE for each in given):
        return None
    return (route.seen.get("spec") or {}).get("hostnames") or None


def _unwritten(route: RouteFacts) -> Statement | None:
    """Return why there is no route as the pool asks for it."""
    if not route.allowed:
        return _NOT_ALLOWED
    if not route.served:
        return _NOT_SERVED
    invalid = [f"{each.sentence}." for each in route_objections(route.wanted)]
    if invalid:
        return Statement("RouteInvalid", " ".join(invalid))
    return None if route.fault is None else Statement("RouteRefused", route.fault)


def _answer(route: RouteFacts, seen: Object, parent: ParentRef) -> ConditionNow:
    """Return the answer of one Gateway's controllers to the route."""
    title = f"{parent.namespace or route.namespace}/{parent.name}"
    generation = seen["metadata"].get("generation", 0)
    kind, waiting = ConditionType.ROUTE_ACCEPTED, None
    answers = list(_answers(route, seen, parent))
    for conditions in answers:
        for asked in _ASKED:
            told = next((each for each in conditions if each.get("type") == asked), None)
            if told is None or told.get("observedGeneration", generation) < generation:
                waiting = f"Gateway {title} has not answered for this generation yet."
            elif told.get("status") != TRUE:
                status = FALSE if told.get("status") == FALSE else UNKNOWN
                words = str(told.get("message") or "no message").strip().rstrip(".")
                message = f"Gateway {title}: {asked} is {told.get('status')}: {words}."
                reason = str(told.get("reason") or "NotAccepted")[:LONGEST_REASON]
                return ConditionNow(kind, status, reason, message)
    if not answers:
        waiting = (
            f"No controller answers for Gateway {title}. Check its name, its listener and that its"
            " controller runs."
        )
    if waiting is not None:
        return ConditionNow(kind, UNKNOWN, "Pending", waiting)
    return ConditionNow(kind, TRUE, "Accepted", "")


def _answers(
    route: RouteFacts, seen: Object, parent: ParentRef
) -> Iterator[Sequence[Mapping[str, Any]]]:
    wanted = (
        parent.namespace or route.namespace,
        parent.name,
        parent.section_name,
        parent.port,
    )
    for each in (seen.get("status") or {}).get("parents") or ():
        given = each.get("parentRef") or {}
        where = given.get("namespace") or route.namespace
        found = (where, given.get("name"), given.get("sectionName"), given.get("port"))
        if found == wanted and given.get("kind", "Gateway") == "Gateway":
            yield each.get("conditions") or ()
