"""The check of GPU claims: whether their ResourceClaimTemplates exist and are large enough."""

from collections.abc import Iterator

from tandem_operator.api import InferencePool
from tandem_operator.cli.diagnosis.check_result import CheckResult, ok, problem
from tandem_operator.cli.input.cluster_facts import ClusterFacts, Object, Topic
from tandem_operator.cli.input.pool_list import readable


def claims(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Check each claim of a role; say so in a sentence if no pool claims anything."""
    found = [each for pool in readable(facts.pools) for each in _of_pool(pool, facts)]
    yield from found or [ok(Topic.CLAIMS, "no pool claims GPUs by a ResourceClaimTemplate")]


def _of_pool(pool: InferencePool, facts: ClusterFacts) -> Iterator[CheckResult]:
    namespace = pool.metadata.namespace
    for role, fleet in pool.spec.fleets.items():
        name = pool.spec.engine_of(role).claim_template
        if name is None:
            continue
        title = f"{role} of {namespace}/{pool.metadata.name}"
        template = facts.claim_templates.get((namespace, name))
        devices = None if template is None else _devices(template)
        if template is None:
            yield problem(
                Topic.CLAIMS,
                f"{title} claims its GPUs by ResourceClaimTemplate {name}, and the namespace has"
                " none of this name",
                "Create it, or correct engine.accelerator.resourceClaimTemplateName.",
            )
        elif devices is not None and devices < fleet.gpus:
            yield problem(
                Topic.CLAIMS,
                f"{title} counts {fleet.gpus} GPUs a replica, and ResourceClaimTemplate {name} asks"
                f" for {devices}",
                "Write the number of its GPUs into gpusPerReplica.",
            )
        else:
            yield ok(Topic.CLAIMS, f"{title} claims its GPUs by ResourceClaimTemplate {name}")


def _devices(template: Object) -> int | None:
    """Return the number of devices of a claim; `None` if the template leaves it open."""
    claim = (template.get("spec") or {}).get("spec") or {}
    count = 0
    for request in (claim.get("devices") or {}).get("requests") or ():
        exactly = request.get("exactly")
        if exactly is None or exactly.get("allocationMode") not in (None, "ExactCount"):
            return None
        count += int(exactly.get("count") or 1)
    return count
