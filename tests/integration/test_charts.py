"""The charts: their objects, their refusals, and the API server's answers to both."""

import json
import shutil
from itertools import product
from pathlib import Path

import pytest
import yaml

from e2e.cluster.controlplane import ControlPlane
from manifests import alerts
from manifests.generate import INSTALL, NAMESPACE, REGISTRY, install_manifest
from tandem_operator.kube.rights import (
    CLUSTER_RIGHTS,
    LEASE_RIGHTS,
    POOL_RIGHTS,
    ROUTE_RIGHTS,
    Right,
)
from tests.integration.charts import (
    CHART,
    CRDS,
    IMAGES,
    MONITORING,
    RULES,
    VARIANTS,
    Objects,
    container,
    deployment,
    ensure_namespace,
    of_kind,
    render,
    run_helm,
)


def granted(roles: Objects) -> set[tuple[str, str, str]]:
    """Return group, resource and verb of each right that some Roles grant."""
    return {
        one
        for role in roles
        for rule in role["rules"]
        for one in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


def needed(rights: tuple[Right, ...]) -> set[tuple[str, str, str]]:
    """Return group, resource and verb of each right that the operator's code needs."""
    return {(right.group, right.resource, verb) for right in rights for verb in right.verbs}


@pytest.mark.parametrize("chart", [CHART, CRDS], ids=lambda chart: chart.name)
def test_lint_finds_nothing(chart: Path) -> None:
    assert "0 chart(s) failed" in run_helm("lint", "--strict", chart)


def test_install_manifest_is_current() -> None:
    assert INSTALL.read_text() == install_manifest(), "run `make crds` and commit what it writes"


@pytest.mark.parametrize("variant", ["default", "two replicas", "everything"])
def test_operator_holds_exactly_what_its_code_asks_for(variant: str) -> None:
    objects = render(*VARIANTS[variant])

    [role] = [
        one for one in of_kind(objects, "ClusterRole") if "pools" not in one["metadata"]["name"]
    ]
    assert granted([role]) == needed(POOL_RIGHTS + CLUSTER_RIGHTS)
    assert granted(of_kind(objects, "Role")) == needed(LEASE_RIGHTS)


@pytest.mark.parametrize(
    ("variant", "kind"), [("default", "ClusterRole"), ("two namespaces", "Role")]
)
def test_operator_may_write_routes_only_with_the_switch(variant: str, kind: str) -> None:
    switched = render(*VARIANTS[variant], "--set", "pools.gatewayRoutes=true")
    usual = render(*VARIANTS[variant])

    assert granted(of_kind(switched, kind)) - granted(of_kind(usual, kind)) == needed(ROUTE_RIGHTS)
    assert "--gateway-routes" in container(switched)["args"]
    assert "--gateway-routes" not in container(usual)["args"]


@pytest.mark.parametrize(
    ("variant", "namespaces"),
    [
        ("one namespace", ["team-a"]),
        ("two replicas in one namespace", ["team-a"]),
        ("two namespaces", ["team-a", "team-b"]),
    ],
)
def test_operator_of_some_namespaces_holds_nothing_elsewhere(
    variant: str, namespaces: list[str]
) -> None:
    objects = render(*VARIANTS[variant])

    assert not of_kind(objects, "ClusterRole") + of_kind(objects, "ClusterRoleBinding")
    roles = {
        namespace: [r for r in of_kind(objects, "Role") if r["metadata"]["namespace"] == namespace]
        for namespace in (*namespaces, NAMESPACE)
    }
    assert sum(map(len, roles.values())) == len(of_kind(objects, "Role"))
    for namespace in namespaces:
        assert granted(roles[namespace]) == needed(POOL_RIGHTS)
        assert f"--namespace={namespace}" in container(objects)["args"]
    assert granted(roles[NAMESPACE]) == needed(LEASE_RIGHTS)
    bound = [(b["metadata"]["namespace"], b["kind"]) for b in of_kind(objects, "RoleBinding")]
    assert {(namespace, "RoleBinding") for namespace in namespaces} <= {*bound}


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_role_has_a_wildcard_or_shows_secrets(variant: str) -> None:
    objects = render(*VARIANTS[variant])

    for group, resource, verb in granted(
        of_kind(objects, "ClusterRole") + of_kind(objects, "Role")
    ):
        assert "*" not in (group, resource, verb)
        assert resource not in {"pods/exec", "clusterroles"}
        assert resource != "nodes" or verb == "list"
        # What creates a Secret is not shown any.
        assert resource != "secrets" or verb == "create"
        assert verb not in {"bind", "escalate", "impersonate"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_replicas_and_their_successors_elect_a_leader(variant: str) -> None:
    objects = render(*VARIANTS[variant])

    assert {"--leader-elect", f"--lease-namespace={NAMESPACE}"} <= {*container(objects)["args"]}


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_operator_may_hold_the_lease_of_its_own_pools_and_no_other(variant: str) -> None:
    from tandem_operator.options import options_from

    objects = render(*VARIANTS[variant])

    name = options_from(container(objects)["args"]).lease_name
    named = [
        rule
        for role in of_kind(objects, "Role")
        for rule in role["rules"]
        if "resourceNames" in rule
    ]
    assert [rule["resourceNames"] for rule in named] == [[name], [name]]
    assert [rule["verbs"] for rule in named] == [["get", "update"], ["get"]]


@pytest.mark.parametrize("variant", VARIANTS)
def test_other_operators_may_see_whether_this_one_lives_and_nothing_else(variant: str) -> None:
    objects = render(*VARIANTS[variant])

    everybody = {
        binding["roleRef"]["name"]
        for binding in of_kind(objects, "RoleBinding") + of_kind(objects, "ClusterRoleBinding")
        if any(subject["kind"] == "Group" for subject in binding["subjects"])
    }
    [reader] = [r for r in of_kind(objects, "Role") if r["metadata"]["name"] in everybody]
    assert granted([reader]) == {("coordination.k8s.io", "leases", "get")}
    assert len(everybody) == 1


def test_installations_for_several_namespaces_do_not_wait_for_each_other() -> None:
    from tandem_operator.options import options_from

    a, b = "--namespace=team-a", "--namespace=team-b"
    scopes = ([], [a], [b], [a, b], [a, "--namespace=team-c"])
    assert options_from([b, a, b]).lease_name == options_from([a, b]).lease_name
    assert len({options_from(scope).lease_name for scope in scopes}) == len(scopes)


@pytest.mark.parametrize("release", ["a.b", "1st", "r" * 53, "123", "1e3"])
def test_any_release_name_makes_names_that_kubernetes_takes(
    control_plane: ControlPlane, namespace: str, release: str
) -> None:
    objects = render(namespace=namespace, release=release)

    control_plane.run_kubectl(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
    )


def test_names_of_digits_stay_strings() -> None:
    numbers = ("watchNamespaces={77}", "serviceAccount.name=88", "priorityClassName=99")
    pull = ("--set-string", "imagePullSecrets={55}")

    objects = render(*(word for each in numbers for word in ("--set-string", each)), *pull)

    pod = deployment(objects)["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["priorityClassName"]) == ("88", "99")
    assert pod["imagePullSecrets"] == [{"name": "55"}]
    [account] = of_kind(objects, "ServiceAccount")
    assert account["metadata"]["name"] == "88"
    namespaces = {role["metadata"]["namespace"] for role in of_kind(objects, "Role")}
    assert namespaces == {"77", NAMESPACE}


def test_labels_of_the_chart_win_over_those_of_the_values() -> None:
    theirs = r"podLabels.app\.kubernetes\.io/name=mine,podLabels.team=search"

    made = deployment(render("--set", theirs))["spec"]

    labels = made["template"]["metadata"]["labels"]
    assert labels["team"] == "search"
    assert made["selector"]["matchLabels"].items() <= labels.items()
    text = run_helm("template", "tandem", CHART, *IMAGES, "--set", theirs)
    assert "app.kubernetes.io/name: mine" not in text


def test_a_version_with_build_metadata_makes_labels_that_kubernetes_takes(tmp_path: Path) -> None:
    built = shutil.copytree(CHART, tmp_path / "tandem")
    described = (built / "Chart.yaml").read_text().replace("ersion: 0.1.0", "ersion: 0.1.0+4f2a")
    (built / "Chart.yaml").write_text(described)

    objects = [
        one
        for one in yaml.safe_load_all(run_helm("template", "tandem", built, *IMAGES))
        if one is not None
    ]

    labels = [value for one in objects for value in one["metadata"]["labels"].items()]
    assert ("helm.sh/chart", "tandem-0.1.0_4f2a") in labels
    assert not [value for _, value in labels if "+" in value]
    assert container(objects)["image"].endswith("/tandem/operator:0.1.0_4f2a")


def test_disruption_budget_covers_two_replicas_and_does_not_pin_a_single_one() -> None:
    objects = render(*VARIANTS["two replicas"])

    [budget] = of_kind(objects, "PodDisruptionBudget")
    labels = deployment(objects)["spec"]["template"]["metadata"]["labels"]
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert not of_kind(render(), "PodDisruptionBudget")


def test_operator_understands_its_own_arguments() -> None:
    from tandem_operator.options import options_from

    options = options_from(container(render(*VARIANTS["two replicas in one namespace"]))["args"])

    assert (options.namespaces, options.metrics_port) == (("team-a",), 8080)
    assert options.health_port == 8081
    assert options.leader_elect
    assert options.lease_namespace == NAMESPACE


def test_images_of_pools_reach_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    from tandem_operator.options import options_from

    fields = {"routerImage": "r", "engineImages.cpu": "c", "engineImages.gpu": "g", "image": "o"}
    images = (
        f"{field}.repository={name},{field}.tag=1,{field}.registry={REGISTRY}"
        for field, name in fields.items()
    )
    operator = container(render(*(word for image in images for word in ("--set-string", image))))
    for variable in operator["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])

    installation = options_from([]).installation
    assert operator["image"] == f"{REGISTRY}/o:1"
    assert installation.router_image == f"{REGISTRY}/r:1"
    assert installation.engine_image_cpu == f"{REGISTRY}/c:1"
    assert installation.engine_image_gpu == f"{REGISTRY}/g:1"


def test_prometheus_servers_that_pools_may_name_reach_the_operator() -> None:
    from tandem_operator.options import options_from

    urls = ("http://prometheus.monitoring.svc:9090", "https://metrics.example.com/prom")
    operator = container(render("--set", f"pools.prometheusUrls={{{','.join(urls)}}}"))

    assert options_from(operator["args"]).installation.prometheus_urls == urls
    assert options_from(container(render())["args"]).installation.prometheus_urls == ()


def test_secrets_that_pools_may_name_reach_the_operator() -> None:
    from tandem_operator.options import options_from

    operator = container(render("--set", "pools.hubTokenSecrets={hf-token,hub}"))

    assert options_from(operator["args"]).installation.hub_token_secrets == ("hf-token", "hub")
    assert options_from(container(render())["args"]).installation.hub_token_secrets == ()


def test_folders_that_pools_may_cache_in_reach_the_operator() -> None:
    from tandem_operator.options import options_from

    operator = container(render("--set", "pools.cacheHostPaths={/var/lib/cache,/mnt/c}"))

    found = options_from(operator["args"]).installation.cache_host_paths
    assert found == ("/var/lib/cache", "/mnt/c")
    assert options_from(container(render())["args"]).installation.cache_host_paths == ()


def test_service_monitor_is_rendered_only_where_its_kind_exists() -> None:
    assert not of_kind(render(), "ServiceMonitor")
    assert of_kind(render(*MONITORING), "ServiceMonitor")
    off = ("--set", "metrics.serviceMonitor.enabled=false")
    assert not of_kind(render(*MONITORING, *off), "ServiceMonitor")


def test_series_of_a_pool_keep_its_namespace_in_a_scrape_of_the_operator() -> None:
    [monitor] = of_kind(render(*MONITORING), "ServiceMonitor")

    assert all(each["honorLabels"] for each in monitor["spec"]["endpoints"])


def test_alerts_are_rendered_where_they_are_asked_for_and_their_kind_exists() -> None:
    [rules] = of_kind(
        render(*RULES, "--set", "metrics.prometheusRule.labels.release=kps"), "PrometheusRule"
    )

    assert rules["metadata"]["labels"]["release"] == "kps"
    assert rules["spec"] == yaml.safe_load(alerts.render())
    assert not of_kind(render(*RULES[:2]), "PrometheusRule")
    assert not of_kind(render(*RULES[2:]), "PrometheusRule")


def test_alerts_link_to_the_runbooks_of_the_values() -> None:
    page = "https://wiki.example/tandem"
    [rules] = of_kind(
        render(*RULES, "--set", f"metrics.prometheusRule.runbooks={page}"), "PrometheusRule"
    )

    links = [
        rule["annotations"]["runbook_url"]
        for group in rules["spec"]["groups"]
        for rule in group["rules"]
    ]
    assert all(link.startswith(f"{page}#tandem") for link in links)


@pytest.mark.parametrize("variant", VARIANTS)
def test_api_server_takes_every_object(
    control_plane: ControlPlane, namespace: str, variant: str
) -> None:
    for team in ("team-a", "team-b"):
        ensure_namespace(control_plane, team)
    objects = render(*VARIANTS[variant], namespace=namespace)

    control_plane.run_kubectl(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=yaml.safe_dump_all(one for one in objects if one["kind"] != "ServiceMonitor"),
    )


@pytest.mark.parametrize("variant", ["default", "everything"])
def test_operator_pod_passes_the_restricted_standard(
    control_plane: ControlPlane, variant: str
) -> None:
    ensure_namespace(control_plane, "team-a")
    objects = render(*VARIANTS[variant], namespace="team-a")
    template = deployment(objects)["spec"]["template"]
    template["spec"] = {**template["spec"], "serviceAccountName": "default"}
    # OpenShift chooses the user, and the image has a numeric one for other clusters.
    assert not {"runAsUser", "runAsGroup", "fsGroup"} & template["spec"]["securityContext"].keys()
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {**template["metadata"], "name": "operator", "namespace": "team-a"}

    for one in (pod, *of_kind(objects, "Pod")):
        control_plane.run_kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(one))
    [only] = template["spec"]["containers"]
    assert only["securityContext"]["readOnlyRootFilesystem"] is True
    assert only["resources"]["limits"]["memory"]
    assert {"livenessProbe", "readinessProbe"} <= only.keys()


@pytest.mark.parametrize("word", ["true", "null", "yes", "e1"])
def test_a_name_that_yaml_would_read_as_another_type_stays_text(word: str) -> None:
    text = ("fullnameOverride", "serviceAccount.name", "priorityClassName", "caBundle.configMap")
    words = [each for name in text for each in ("--set-string", f"{name}={word}")]

    objects = render(*words, *MONITORING, *RULES)

    names = {(obj["kind"], obj["metadata"]["name"]) for obj in objects}
    assert {(kind, word) for kind in ("Deployment", "ServiceMonitor", "PrometheusRule")} <= names
    bindings = of_kind(objects, "ClusterRoleBinding") + of_kind(objects, "RoleBinding")
    referred = {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings}
    assert referred <= names
    assert ("ClusterRole", word) in referred
    pod = deployment(objects)["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["priorityClassName"]) == (word, word)
