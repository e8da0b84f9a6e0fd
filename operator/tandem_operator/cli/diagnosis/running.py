"""The checks of running pools and of their surroundings, as far as the API shows them."""

from collections.abc import Iterator

from pydantic import ValidationError

from tandem_operator.api import EFFECTIVE, ConditionType, parse_status
from tandem_operator.cli.diagnosis.advice import is_bad, to_do
from tandem_operator.cli.diagnosis.check_result import CheckResult, note, ok, problem
from tandem_operator.cli.input.cluster_facts import ClusterFacts, Object, Topic
from tandem_operator.cli.input.named_objects import prometheus_of, service_of
from tandem_operator.cli.input.pool_list import name_of, namespace_of
from tandem_operator.workloads.status.condition_now import FALSE

CONNECT = "See docs/how-to/connect-prometheus.md."
SCALE = "See docs/how-to/scale-with-hpa-or-keda.md."


def pools(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Yield each bad condition, with its remedy."""
    fine = 0
    yield from _pool_roles(facts)
    for pool in facts.pools:
        found = list(_conditions(pool))
        fine += not found
        yield from found
    if not facts.pools:
        where = "in any namespace" if facts.namespace is None else f"in {facts.namespace}"
        yield note(Topic.POOLS, f"there is no pool {where}", "See docs/how-to/write-a-pool.md.")
    elif fine:
        yield ok(Topic.POOLS, f"{fine} of {len(facts.pools)} pools are as they should be")


def _pool_roles(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Yield each role whose owner asks for replicas that it does not get."""
    for found in facts.pool_roles:
        for each in (found.get("status") or {}).get("conditions") or ():
            if each.get("type") == EFFECTIVE and each.get("status") == FALSE:
                title = f"PoolRole {namespace_of(found)}/{name_of(found)}"
                told = f"{title}: {EFFECTIVE} is {FALSE}: {each.get('message')}"
                yield note(Topic.POOLS, told, SCALE)


def _conditions(pool: Object) -> Iterator[CheckResult]:
    namespace, name = namespace_of(pool), name_of(pool)
    title = f"{namespace}/{name}"
    try:
        status = parse_status(pool)
    except ValidationError:
        yield problem(
            Topic.POOLS,
            f"{title} has a status that this version cannot read",
            "Use the command line of the operator's version.",
        )
        return
    if not status.conditions:
        yield problem(
            Topic.POOLS,
            f"no operator has seen {title}",
            "Check that the operator runs, and that watchNamespaces of its chart holds"
            f" {namespace} or is empty.",
        )
    for condition in status.conditions or ():
        if is_bad(condition):
            told = f"{title}: {condition.type} is {condition.status}: {condition.message}"
            remedy = to_do(condition, status, name=name, namespace=namespace) or ""
            late = condition.kind is ConditionType.SLO_MET
            yield note(Topic.POOLS, told, remedy) if late else problem(Topic.POOLS, told, remedy)


def network(_: ClusterFacts) -> Iterator[CheckResult]:
    """Yield a note: the API does not show whether the network enforces NetworkPolicies."""
    yield note(
        Topic.NETWORK,
        "the API does not say whether the network enforces NetworkPolicies",
        "Ask the administrators of the network. Without enforcement, every pod of the cluster"
        " reaches the metrics and KV ports of engines (docs/explanation/security.md).",
    )


def metrics(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Check how pools are scraped, and whether the Prometheus that they name exists."""
    kinds = ("PodMonitor", "ServiceMonitor")
    missing = [kind for kind in kinds if kind not in facts.monitors]
    if missing:
        yield note(
            Topic.METRICS,
            f"the cluster does not know {' and '.join(missing)}, so no Prometheus Operator scrapes"
            " pools",
            f"Tandem itself needs none. To see metrics, scrape the pods by hand. {CONNECT}",
        )
    else:
        yield ok(Topic.METRICS, "the Prometheus Operator's PodMonitor and ServiceMonitor are there")
    for pool in facts.pools:
        service = prometheus_of(pool)
        if service is None or facts.services.get(service, True):
            continue
        yield problem(
            Topic.METRICS,
            f"{namespace_of(pool)}/{name_of(pool)} names the Prometheus {service[1]} in namespace"
            f" {service[0]}, where there is no such Service",
            f"Correct spec.metrics.prometheus.url. {CONNECT}",
        )
    for operator in facts.operators:
        service = service_of(operator.prometheus)
        if service is not None and not facts.services.get(service, True):
            yield problem(
                Topic.METRICS,
                f"operator {operator.title} asks the Prometheus {service[1]} in namespace"
                f" {service[0]}, where there is no such Service",
                f"Correct metrics.prometheus.url of its chart. {CONNECT}",
            )
    for namespace, name in facts.unread_tokens:
        yield problem(
            Topic.METRICS,
            f"no operator may read Secret {namespace}/{name}, which a pool names for its"
            " Prometheus",
            f"Grant it `get` of this one Secret. {CONNECT}",
        )
