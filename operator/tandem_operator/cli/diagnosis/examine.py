"""All checks of `tandem doctor`, in the order of an installation, over facts that were read."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from tandem_operator.cli.diagnosis import gateways, gpu_claims, hardware, installation, running
from tandem_operator.cli.diagnosis.check_result import CheckResult, CheckState, unknown
from tandem_operator.cli.input.cluster_facts import ClusterFacts, Topic

CHECKS: Mapping[Topic, Callable[[ClusterFacts], Iterator[CheckResult]]] = {
    Topic.SERVER: installation.server,
    Topic.DEFINITION: installation.definition,
    Topic.OPERATOR: installation.operator,
    Topic.OPERATOR_RIGHTS: installation.operator_rights,
    Topic.USER_RIGHTS: installation.user_rights,
    Topic.PODS: installation.images,
    Topic.NODES: hardware.gpus,
    Topic.CLAIMS: gpu_claims.claims,
    Topic.RDMA: hardware.rdma,
    Topic.NETWORK: running.network,
    Topic.GATEWAY: gateways.gateways,
    Topic.METRICS: running.metrics,
    Topic.POOLS: running.pools,
}
# The parts that a check reads besides its own.
_NEEDS = {
    Topic.NODES: (Topic.POOLS,),
    Topic.CLAIMS: (Topic.POOLS,),
    Topic.RDMA: (Topic.NODES,),
    Topic.OPERATOR_RIGHTS: (Topic.OPERATOR,),
    Topic.GATEWAY: (Topic.POOLS,),
}
OK, PROBLEMS, NOT_ALL = 0, 1, 2


def examine(facts: ClusterFacts) -> list[CheckResult]:
    """Return the results of every check; a part that could not be read is unknown, never well."""
    found: list[CheckResult] = []
    for topic, check in CHECKS.items():
        unread = [each for each in (topic, *_NEEDS.get(topic, ())) if each in facts.unread]
        if unread:
            found.append(unknown(topic, facts.unread[unread[0]]))
        else:
            found += check(facts)
    return found


def exit_code(found: Sequence[CheckResult]) -> int:
    """Return 1 for a problem, 2 if a check was not possible, else 0."""
    states = {each.state for each in found}
    if CheckState.PROBLEM in states:
        return PROBLEMS
    return NOT_ALL if CheckState.UNKNOWN in states else OK
