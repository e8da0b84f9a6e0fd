"""The checks of the installation: CRDs, operators, their versions, rights and images."""

import re
from collections.abc import Iterator, Sequence

from tandem_operator.api import KIND, ROLE_KIND
from tandem_operator.api.crd import custom_resource_definition, pool_role_definition
from tandem_operator.api.v1alpha1 import VERSION
from tandem_operator.cli.diagnosis.check_result import CheckResult, note, ok, problem
from tandem_operator.cli.input.cluster_facts import ClusterFacts, Object, OperatorFacts, Topic
from tandem_operator.kube.kinds import POD_MONITOR
from tandem_operator.kube.rights import Right

LEAST_KUBERNETES = (1, 29)
UPGRADE_CRD = (
    "Install or upgrade the chart tandem of this version, or the chart tandem-crds if crds.enabled"
    " is false."
)
INSTALL_OPERATOR = "Install the chart tandem. See docs/how-to/install.md."
# Helm's default; an installation may have other Roles of the same rights.
GRANT = "Set rbac.create of the chart, or grant what operator/tandem_operator/kube/rights.py lists."
_VERSION = re.compile(r"v?(\d+)\.(\d+)")
_WAITING_FOR_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName"})


def server(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Check whether the API server is new enough."""
    found = _VERSION.match(facts.server_version)
    wanted = ".".join(map(str, LEAST_KUBERNETES))
    if found is None:
        yield note(Topic.SERVER, f"it tells no version: {facts.server_version!r}")
    elif (int(found[1]), int(found[2])) < LEAST_KUBERNETES:
        yield problem(
            Topic.SERVER,
            f"Kubernetes {facts.server_version} is older than {wanted}",
            f"Use a cluster of Kubernetes {wanted} or newer.",
        )
    else:
        yield ok(Topic.SERVER, f"Kubernetes {facts.server_version}")


def definition(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Check whether the CRDs exist, are in force, and are those of this command line."""
    yield from _defined(KIND, facts.definition, custom_resource_definition(), facts)
    yield from _defined(ROLE_KIND, facts.role_definition, pool_role_definition(), facts)


def _defined(
    kind: str, found: Object | None, ours: Object, facts: ClusterFacts
) -> Iterator[CheckResult]:
    if found is None:
        yield problem(Topic.DEFINITION, f"the kind {kind} is not installed", UPGRADE_CRD)
        return
    states = (found.get("status") or {}).get("conditions") or ()
    refused = [
        each
        for each in states
        if each.get("type") in ("Established", "NamesAccepted") and each.get("status") != "True"
    ]
    for each in refused:
        yield problem(
            Topic.DEFINITION,
            f"{kind}: {each.get('type')} is {each.get('status')}: {each.get('message')}",
            "Remove the CRD that has the same names, or correct what the message names.",
        )
    versions = (found.get("spec") or {}).get("versions") or ()
    [own] = [each for each in versions if each.get("name") == VERSION] or [None]
    if own is None or not own.get("served"):
        served = ", ".join(str(each.get("name")) for each in versions if each.get("served"))
        yield problem(
            Topic.DEFINITION,
            f"{kind}: {VERSION} is not served; there is {served or 'none'}",
            UPGRADE_CRD,
        )
    elif _schema(own) != _schema(ours["spec"]["versions"][0]):
        yield problem(
            Topic.DEFINITION,
            f"the schema of {kind} is not that of version {facts.cli_version}, which this command"
            " line has",
            f"{UPGRADE_CRD} Or use the command line of the installed version.",
        )
    elif not refused:
        yield ok(
            Topic.DEFINITION,
            f"{kind} {VERSION} is served, with the schema of {facts.cli_version}",
        )


def _schema(version: Object) -> object:
    return (version.get("schema") or {}).get("openAPIV3Schema")


def operator(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Check whether an operator runs, and which one."""
    if not facts.operators:
        yield problem(Topic.OPERATOR, "there is no Deployment of an operator", INSTALL_OPERATOR)
    for each in facts.operators:
        yield from _runs(each)
        yield _fits(each, facts.cli_version)
    everywhere = [each.title for each in facts.operators if not each.namespaces]
    if len(everywhere) > 1:
        yield note(
            Topic.OPERATOR,
            f"{len(everywhere)} operators serve all namespaces: {', '.join(everywhere)}",
            "Uninstall all but one, or give each its watchNamespaces.",
        )


def _runs(found: OperatorFacts) -> Iterator[CheckResult]:
    where = ", ".join(found.namespaces) or "all namespaces"
    if found.wanted == 0:
        yield problem(
            Topic.OPERATOR,
            f"{found.title} has 0 replicas",
            f"Run kubectl scale -n {found.namespace} deployment/{found.name} --replicas=1.",
        )
    elif found.ready == 0:
        yield problem(
            Topic.OPERATOR,
            f"{found.title} has no Ready pod",
            f"Run kubectl describe pods -n {found.namespace}"
            " -l app.kubernetes.io/component=operator.",
        )
    elif found.ready < found.wanted:
        yield note(
            Topic.OPERATOR,
            f"{found.title} has {found.ready} of {found.wanted} pods Ready; one of them acts",
            f"Run kubectl describe pods -n {found.namespace}"
            " -l app.kubernetes.io/component=operator.",
        )
    else:
        yield ok(Topic.OPERATOR, f"{found.title} is Ready and serves {where}")


def _fits(found: OperatorFacts, cli_version: str) -> CheckResult:
    if found.version == cli_version:
        return ok(Topic.OPERATOR, f"{found.image} is of version {cli_version}, as this is")
    return note(
        Topic.OPERATOR,
        f"{found.image} is of version {found.version or 'unknown'}, this is {cli_version}",
        f"Install tandem-inference[cli]=={found.version}, or upgrade the chart."
        if found.version
        else "Install the operator by its chart, which labels it with its version.",
    )


def operator_rights(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Check whether each operator has the rights that its code needs."""
    for each in facts.operators:
        if each.refused is None:
            continue
        lacking = [
            (place, right)
            for place, right in each.refused
            if right.group != POD_MONITOR.group or POD_MONITOR.kind in facts.monitors
        ]
        account = f"{each.namespace}/{each.account}"
        if not lacking:
            yield ok(Topic.OPERATOR_RIGHTS, f"ServiceAccount {account} has all of them")
        for place, right in lacking:
            where = f"in namespace {place}" if place else "in all namespaces"
            told = f"ServiceAccount {account} may not {_told(right)} {where}"
            yield problem(Topic.OPERATOR_RIGHTS, told, GRANT)


def user_rights(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Check which commands the user has no right for."""
    where = "in all namespaces" if facts.namespace is None else f"in namespace {facts.namespace}"
    for right, commands in facts.user_refused:
        yield note(
            Topic.USER_RIGHTS,
            f"you may not {_told(right)} {where}, which {commands} needs",
            "Ask for the role view (for record: edit), or name a namespace of yours with -n.",
        )
    if not facts.user_refused:
        yield ok(Topic.USER_RIGHTS, f"you may use every command {where}")


def _told(right: Right) -> str:
    group = f".{right.group}" if right.group else ""
    name, _, sub = right.resource.partition("/")
    return f"{' and '.join(right.verbs)} {name}{group}{'/' if sub else ''}{sub}"


def images(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Check for images that nodes cannot pull."""
    waiting = list(_unpulled(facts.pods))
    for pod, image, reason, message in waiting:
        yield problem(
            Topic.PODS,
            f"pod {pod}: {image}: {reason}: {message}",
            "Correct the image's name and registry, push it, or name a Secret for the registry"
            " (imagePullSecrets of the chart; podTemplate.spec.imagePullSecrets of a pool).",
        )
    if not waiting:
        yield ok(Topic.PODS, f"none of {len(facts.pods)} pods waits for an image")


def _unpulled(pods: Sequence[Object]) -> Iterator[tuple[str, str, str, str]]:
    for pod in pods:
        head, status = pod.get("metadata") or {}, pod.get("status") or {}
        for kind in ("initContainerStatuses", "containerStatuses"):
            for container in status.get(kind) or ():
                state = (container.get("state") or {}).get("waiting") or {}
                if state.get("reason") in _WAITING_FOR_IMAGE:
                    name = f"{head.get('namespace')}/{head.get('name')}"
                    words = str(state.get("message") or "no message").strip()
                    yield name, str(container.get("image")), str(state["reason"]), words
