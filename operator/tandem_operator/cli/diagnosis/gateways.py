"""The checks of routes: whether pools can have them, and whether two want the same requests."""

from collections.abc import Iterator

from tandem_operator.api import InferencePool
from tandem_operator.cli.diagnosis.check_result import CheckResult, note, ok, problem
from tandem_operator.cli.input.cluster_facts import ClusterFacts, Topic
from tandem_operator.cli.input.named_objects import asks_for_gateway
from tandem_operator.cli.input.pool_list import name_of, namespace_of, readable
from tandem_operator.workloads.checks.shared_hosts import REMEDY, contested

BEHIND = "See docs/how-to/put-behind-a-gateway.md."


def gateways(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Check the kind HTTPRoute, the switch of each operator, and hosts that pools share."""
    asking = [pool for pool in facts.pools if asks_for_gateway(pool)]
    if not asking:
        yield ok(Topic.GATEWAY, "no pool asks for a Gateway")
        return
    who = f"{namespace_of(asking[0])}/{name_of(asking[0])}"
    if not facts.serves_routes:
        yield problem(
            Topic.GATEWAY,
            f"the cluster does not know HTTPRoute, and pools ask for a Gateway: {who}",
            f"Install the CRDs of Gateway API 1.2 or newer. {BEHIND}",
        )
    for each in facts.operators:
        if not each.gateway_routes:
            yield note(
                Topic.GATEWAY,
                f"{each.title} writes no routes, and pools ask for a Gateway: {who}",
                f"Set pools.gatewayRoutes of its chart. {BEHIND}",
            )
    for one, other, what in contested(list(readable(asking))):
        yield problem(
            Topic.GATEWAY,
            f"{_title(one)} and {_title(other)} both want {what}, and the Gateway gives them to the"
            " older route",
            f"{REMEDY[0].upper()}{REMEDY[1:]}. {BEHIND}",
        )
    if facts.serves_routes:
        yield ok(Topic.GATEWAY, "the Gateway API's HTTPRoute is there")


def _title(pool: InferencePool) -> str:
    return f"{pool.metadata.namespace}/{pool.metadata.name}"
