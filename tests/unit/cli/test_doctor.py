"""`tandem doctor`: each check over plain facts, and what the whole says to a shell."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tandem_operator.api.crd import custom_resource_definition, pool_role_definition
from tandem_operator.cli.diagnosis import gateways, gpu_claims, hardware, installation, running
from tandem_operator.cli.diagnosis.check_result import CheckResult, CheckState
from tandem_operator.cli.diagnosis.examine import CHECKS, NOT_ALL, OK, PROBLEMS, examine, exit_code
from tandem_operator.cli.input.cluster_facts import ClusterFacts, OperatorFacts, Topic
from tandem_operator.cli.input.named_objects import claims_of, prometheus_of
from tandem_operator.cli.input.operator_deployment import operator_of
from tandem_operator.kube.rights import Right
from tests.unit.cli.files import tandem
from tests.unit.cli.saved import condition, pool

FINE = [condition(kind, "True", "AsIs", "It is so.") for kind in ("Ready", "Available", "SLOMet")]
OPERATOR = OperatorFacts(
    namespace="tandem-system",
    name="tandem-operator",
    image="registry.example.com/tandem/operator:0.1.0",
    version="0.1.0",
    wanted=1,
    ready=1,
    account="tandem-operator",
    refused=(),
)


def node(name: str = "n1", *, labels: Mapping[str, str] | None = None, **allocatable: Any) -> Any:
    resources = {key.replace("__", "/").replace("_", "."): v for key, v in allocatable.items()}
    return {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "status": {"allocatable": {"cpu": "8", **resources}},
    }


def facts(**changes: Any) -> ClusterFacts:
    healthy: dict[str, Any] = {
        "cli_version": "0.1.0",
        "server_version": "v1.34.4",
        "namespace": None,
        "definition": custom_resource_definition(),
        "role_definition": pool_role_definition(),
        "operators": (OPERATOR,),
        "nodes": (node(nvidia_com__gpu="8"),),
        "pools": (pool(conditions=FINE),),
        "monitors": frozenset({"PodMonitor", "ServiceMonitor"}),
    }
    return ClusterFacts(**{**healthy, **changes})


def with_gateway(name: str = "chat") -> Any:
    made = pool(conditions=FINE)
    parents = [{"name": "public", "namespace": "gateways"}]
    gateway = {"parentRefs": parents, "hostnames": ["llm.example.com"]}
    spec = {**made["spec"], "router": {**made["spec"].get("router", {}), "gateway": gateway}}
    return {**made, "metadata": {**made["metadata"], "name": name}, "spec": spec}


def with_operator(**changes: Any) -> ClusterFacts:
    return facts(operators=(replace(OPERATOR, **changes),))


def worst(found: Any) -> CheckResult:
    order = list(CheckState)
    results = sorted(found, key=lambda each: order.index(each.state))
    problems = [each for each in results if each.state is CheckState.PROBLEM]
    return problems[0] if problems else results[-1]


def test_a_healthy_cluster_has_no_problem_and_every_part_is_looked_at():
    found = examine(facts())

    assert {each.topic for each in found} == set(CHECKS) == set(Topic)
    assert not [each for each in found if each.state in (CheckState.PROBLEM, CheckState.UNKNOWN)]
    assert exit_code(found) == OK


@pytest.mark.parametrize(
    ("check", "changed", "told"),
    [
        (installation.server, {"server_version": "v1.27.3"}, "v1.27.3 is older than 1.29"),
        (installation.definition, {"definition": None}, "InferencePool is not installed"),
        (installation.definition, {"role_definition": None}, "PoolRole is not installed"),
        (installation.operator, {"operators": ()}, "no Deployment of an operator"),
        (
            hardware.gpus,
            {"nodes": (node(),)},
            "no node that takes pods has nvidia.com/gpu, and pools ask for it: team/chat",
        ),
        (
            hardware.gpus,
            {"nodes": (node(labels={"nvidia.com/gpu.present": "true"}),)},
            "nodes with NVIDIA GPUs offer no nvidia.com/gpu: n1",
        ),
        (
            hardware.gpus,
            {"nodes": (node(nvidia_com__gpu="2"),)},
            "nodes have 2 nvidia.com/gpu; pools ask for 4, and for 6 at most",
        ),
        (
            hardware.gpus,
            {"nodes": ({**node(nvidia_com__gpu="8"), "spec": {"unschedulable": True}},)},
            "no node that takes pods has nvidia.com/gpu",
        ),
        (
            gateways.gateways,
            {"pools": (with_gateway(),), "serves_routes": False},
            "does not know HTTPRoute, and pools ask for a Gateway: team/chat",
        ),
        (
            gateways.gateways,
            {"pools": (with_gateway(), with_gateway("more"))},
            "team/chat and team/more both want the requests of llm.example.com",
        ),
        (
            running.pools,
            {"pools": ({k: v for k, v in pool().items() if k != "status"},)},
            "no operator has seen team/chat",
        ),
        (running.pools, {"pools": (pool(slo=7),)}, "a status that this version cannot read"),
        (
            running.pools,
            {"pools": (pool(),)},
            "team/chat: CapacityBlocked is True: pod chat-prefill-x: Unschedulable",
        ),
    ],
)
def test_what_is_wrong_is_a_problem_with_a_remedy(check, changed, told):
    found = worst(check(facts(**changed)))

    assert found.state is CheckState.PROBLEM
    assert told in found.sentence
    assert found.remedy


def test_a_gateway_that_an_operator_may_not_serve_is_a_note_and_one_that_it_may_is_well():
    asked = (with_gateway(),)

    [refused, _] = gateways.gateways(facts(pools=asked))
    [fine] = gateways.gateways(
        facts(pools=asked, operators=(replace(OPERATOR, gateway_routes=True),))
    )

    assert refused.state is CheckState.NOTE
    assert "tandem-system/tandem-operator writes no routes" in refused.sentence
    assert "pools.gatewayRoutes" in refused.remedy
    assert fine.state is CheckState.OK


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"ready": 0}, "tandem-system/tandem-operator has no Ready pod"),
        ({"wanted": 0, "ready": 0}, "has 0 replicas"),
    ],
)
def test_an_operator_that_does_not_run_is_a_problem(changed, told):
    found = worst(installation.operator(with_operator(**changed)))

    assert (found.state, told in found.sentence) == (CheckState.PROBLEM, True)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"version": "0.2.0"}, "is of version 0.2.0, this is 0.1.0"),
        ({"version": ""}, "is of version unknown, this is 0.1.0"),
        ({"wanted": 2, "ready": 1}, "has 1 of 2 pods Ready; one of them acts"),
    ],
)
def test_an_operator_that_serves_all_the_same_is_a_note(changed, told):
    found = list(installation.operator(with_operator(**changed)))

    assert exit_code(found) == OK
    assert [each for each in found if each.state is CheckState.NOTE and told in each.sentence]


def test_two_operators_of_all_namespaces_are_named():
    [told] = [
        each.sentence
        for each in installation.operator(facts(operators=(OPERATOR, OPERATOR)))
        if each.state is CheckState.NOTE
    ]

    assert told.startswith("2 operators serve all namespaces: ")


def test_a_role_that_does_not_get_what_its_owner_asks_for_is_noted():
    limited = {"type": "Effective", "status": "False", "message": "because of decode.maxReplicas"}
    role = {
        "metadata": {"name": "chat-decode", "namespace": "team"},
        "status": {"conditions": [limited]},
    }

    [found, *_] = running.pools(facts(pool_roles=(role,)))

    assert found.state is CheckState.NOTE
    assert "PoolRole team/chat-decode" in found.sentence
    assert "decode.maxReplicas" in found.sentence


def test_another_schema_of_the_crd_is_a_problem():
    other = custom_resource_definition()
    [version] = other["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["placement"]

    found = worst(installation.definition(facts(definition=other)))

    assert "the schema of InferencePool is not that of version 0.1.0" in found.sentence


def test_a_version_that_is_no_longer_served_names_those_that_are():
    other = custom_resource_definition()
    other["spec"]["versions"] = [{"name": "v1", "served": True}]

    assert (
        "not served; there is v1"
        in worst(installation.definition(facts(definition=other))).sentence
    )


def test_each_right_that_the_operator_lacks_is_named_with_its_place():
    lacking = (
        ("", Right("apps", "deployments", ("create", "patch"))),
        ("team", Right("", "pods", ("list",))),
    )

    told = [each.sentence for each in installation.operator_rights(with_operator(refused=lacking))]

    assert told == [
        "ServiceAccount tandem-system/tandem-operator may not create and patch deployments.apps"
        " in all namespaces",
        "ServiceAccount tandem-system/tandem-operator may not list pods in namespace team",
    ]


def test_a_right_on_a_kind_that_the_cluster_does_not_know_is_not_missed():
    lacking = (("", Right("monitoring.coreos.com", "podmonitors", ("list",))),)
    [operator] = with_operator(refused=lacking).operators

    known, unheard = (
        exit_code(
            list(installation.operator_rights(facts(operators=(operator,), monitors=monitors)))
        )
        for monitors in (frozenset({"PodMonitor"}), frozenset())
    )

    assert (known, unheard) == (PROBLEMS, OK)


def test_commands_that_the_user_has_no_right_for_are_named():
    lacking = ((Right("", "pods/portforward", ("create",)), "record"),)

    [found] = installation.user_rights(facts(user_refused=lacking, namespace="team"))

    assert found.sentence == (
        "you may not create pods/portforward in namespace team, which record needs"
    )


def test_an_image_that_cannot_be_pulled_is_named_with_its_pod():
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    pod = {
        "metadata": {"namespace": "team", "name": "chat-router-1"},
        "status": {"containerStatuses": [{"image": "x/router:1", "state": {"waiting": waiting}}]},
    }

    found = worst(installation.images(facts(pods=(pod,))))

    assert found.sentence == (
        "pod team/chat-router-1: x/router:1: ImagePullBackOff: Back-off pulling image"
    )


def test_a_replica_larger_than_every_node_is_a_problem_though_the_sum_is_enough():
    large = pool(conditions=FINE)
    large["spec"]["prefill"]["gpusPerReplica"] = 8
    large["spec"]["scaling"] = {}
    nodes = tuple(node(f"n{i}", nvidia_com__gpu="4") for i in range(20))

    found = worst(hardware.gpus(facts(pools=(large,), nodes=nodes)))

    assert "a replica of team/chat needs 8 GPUs, and no node has more than 4" in found.sentence


def test_a_cluster_without_gpus_is_well_for_pools_on_cpu():
    on_cpu = pool(conditions=FINE)
    on_cpu["spec"]["engine"] = {"device": "CPU"}

    found = list(hardware.gpus(facts(pools=(on_cpu,), nodes=(node(),))))

    assert exit_code(found) == OK


def test_slices_of_gpus_are_counted_apart_from_whole_ones():
    sliced = pool(conditions=FINE)
    sliced["spec"]["engine"] = {
        "device": "NVIDIA",
        "accelerator": {"resource": "nvidia.com/mig-1g.10gb"},
    }
    slices = {"nvidia.com/mig-1g.10gb": "1"}
    nodes = ({**node(), "status": {"allocatable": slices}},)

    found = worst(hardware.gpus(facts(pools=(sliced,), nodes=nodes)))

    assert found.sentence.startswith("nodes have 1 nvidia.com/mig-1g.10gb; pools ask for 4")


def claiming(**more):
    found = pool(conditions=FINE)
    found["spec"]["engine"] = {
        "device": "NVIDIA",
        "accelerator": {"resourceClaimTemplateName": "one-gpu"},
    }
    for role in ("prefill", "decode"):
        found["spec"][role] = found["spec"][role] | {"gpusPerReplica": 1}
    found["spec"] |= more
    return found


def claim_template(count: int = 1, **exactly):
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}
    request["exactly"] |= exactly
    return {"spec": {"spec": {"devices": {"requests": [request]}}}}


def of_claims(template, **more):
    key = ("team", "one-gpu")
    found = gpu_claims.claims(facts(pools=(claiming(**more),), claim_templates={key: template}))
    return [(each.state, each.sentence) for each in found]


def test_a_claim_whose_template_is_there_is_well():
    assert of_claims(claim_template()) == [
        (CheckState.OK, f"{role} of team/chat claims its GPUs by ResourceClaimTemplate one-gpu")
        for role in ("prefill", "decode")
    ]


def test_a_claim_whose_template_is_missing_is_a_problem():
    (state, sentence), _ = of_claims(None)

    assert state is CheckState.PROBLEM
    assert "ResourceClaimTemplate one-gpu, and the namespace has none of this name" in sentence


def test_a_template_of_fewer_devices_than_a_replica_counts_is_a_problem():
    larger = {"decode": {"maxReplicas": 4, "gpusPerReplica": 2}}

    (first, _), (second, sentence) = of_claims(claim_template(), **larger)

    assert (first, second) == (CheckState.OK, CheckState.PROBLEM)
    assert "decode of team/chat counts 2 GPUs a replica" in sentence
    assert sentence.endswith("ResourceClaimTemplate one-gpu asks for 1")


def test_a_template_that_leaves_the_number_open_is_taken():
    larger = {"decode": {"maxReplicas": 4, "gpusPerReplica": 2}}

    assert {state for state, _ in of_claims(claim_template(allocationMode="All"), **larger)} == {
        CheckState.OK
    }


def test_pools_that_claim_are_not_missed_at_device_plugins():
    assert (
        list(hardware.gpus(facts(pools=(claiming(),), nodes=(node(),), claim_templates=KNOWN)))
        == []
    )


KNOWN = {("team", "one-gpu"): claim_template()}


def test_the_templates_that_pools_name_are_read():
    own = {"engine": {"resourceClaimTemplateName": "two-gpus"}}

    assert set(claims_of(claiming(decode=own))) == {("team", "one-gpu"), ("team", "two-gpus")}
    assert set(claims_of(pool(conditions=FINE))) == set()


def test_a_node_with_gpus_of_amd_that_offers_none_needs_the_plugin_of_amd():
    on_amd = pool(conditions=FINE)
    on_amd["spec"]["engine"] = {"device": "AMD", "image": "vllm/vllm-openai-rocm:v0.32.0"}
    nodes = (node(labels={"feature.node.kubernetes.io/amd-gpu": "true"}),)

    found = worst(hardware.gpus(facts(pools=(on_amd,), nodes=nodes)))

    assert found.sentence == "nodes with AMD GPUs offer no amd.com/gpu: n1"
    assert "GPU operator of AMD" in found.remedy


def test_accelerators_of_others_and_rdma_are_notes():
    nodes = (node(amd_com__gpu="4", rdma__hca_shared="2"),)

    [gpus, *_] = hardware.gpus(facts(nodes=nodes, pools=()))
    [rdma] = hardware.rdma(facts(nodes=nodes))

    assert "nodes have 4 amd.com/gpu" in gpus.sentence
    assert (rdma.state, rdma.sentence) == (CheckState.NOTE, "nodes offer 2 rdma/hca.shared")


def test_late_requests_are_a_note_and_no_fault_of_the_installation():
    late = condition("SLOMet", "False", "Missed", "Fewer than 95% of the recent requests.")

    found = list(running.pools(facts(pools=(pool(conditions=[*FINE[:2], late]),))))

    assert exit_code(found) == OK
    assert "SLOMet is False" in found[0].sentence


@pytest.mark.parametrize(
    ("url", "service"),
    [
        ("http://prometheus.monitoring.svc:9090", ("monitoring", "prometheus")),
        ("http://prometheus.monitoring.svc.cluster.local", ("monitoring", "prometheus")),
        ("http://10.0.0.1:9090", None),
        ("https://prometheus.example.com/x", None),
        ("http://[", None),
        (None, None),
    ],
)
def test_the_service_of_a_prometheus_is_told_by_its_url(url, service):
    spec = {"metrics": {"prometheus": {"url": url}}} if url else {}

    assert prometheus_of({"spec": spec}) == service


def test_a_prometheus_that_is_not_there_is_a_problem():
    asks = pool(conditions=FINE)
    asks["spec"]["metrics"] = {"prometheus": {"url": "http://p.monitoring.svc:9090"}}
    services = {("monitoring", "p"): False}

    found = worst(running.metrics(facts(pools=(asks,), services=services)))

    assert "names the Prometheus p in namespace monitoring, where there is no" in found.sentence


def test_the_operators_own_prometheus_that_is_not_there_is_a_problem():
    own = replace(OPERATOR, prometheus="https://p.monitoring.svc:9090")

    found = worst(running.metrics(facts(operators=(own,), services={("monitoring", "p"): False})))

    assert "operator tandem-system/tandem-operator asks the Prometheus p" in found.sentence
    assert "metrics.prometheus.url of its chart" in found.remedy


def test_a_token_that_no_operator_may_read_is_a_problem():
    found = worst(running.metrics(facts(unread_tokens=(("team", "reader"),))))

    assert found.sentence.startswith("no operator may read Secret team/reader")


@pytest.mark.parametrize(
    ("argument", "url"),
    [
        ('--prometheus={"url":"https://p","tokenFile":"/t"}', "https://p"),
        ("--prometheus=https://p", ""),
        ('--prometheus=["https://p"]', ""),
        ("--leader-elect", ""),
    ],
)
def test_a_deployment_tells_its_prometheus(argument, url):
    pod = {"spec": {"containers": [{"args": [argument]}]}}

    assert operator_of({"spec": {"template": pod}}).prometheus == url


def test_what_could_not_be_read_is_unknown_and_never_well():
    found = examine(facts(unread={Topic.NODES: "nodes is forbidden", Topic.OPERATOR: "no"}))

    unknown = {each.topic for each in found if each.state is CheckState.UNKNOWN}
    assert unknown == {Topic.NODES, Topic.RDMA, Topic.OPERATOR, Topic.OPERATOR_RIGHTS}
    assert exit_code(found) == NOT_ALL


def test_a_deployment_tells_its_namespaces_and_account():
    found = operator_of(
        {
            "metadata": {
                "namespace": "t",
                "name": "o",
                "labels": {"app.kubernetes.io/version": "9"},
            },
            "spec": {
                "replicas": 2,
                "template": {
                    "spec": {
                        "serviceAccountName": "a",
                        "containers": [
                            {"image": "i", "args": ["--namespace=x", "--namespace=y", "--z"]}
                        ],
                    }
                },
            },
            "status": {"readyReplicas": 1},
        }
    )

    assert (found.namespaces, found.account, found.version) == (("x", "y"), "a", "9")
    assert (found.wanted, found.ready) == (2, 1)


def test_without_a_cluster_it_could_not_look(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    result = tandem("doctor")

    assert result.exit_code == NOT_ALL
    assert result.stderr.startswith("tandem doctor: no cluster to ask")


def test_a_server_that_tells_nothing_could_not_be_looked_at(cluster):
    result = tandem("doctor", "-o", "json")

    assert result.exit_code == NOT_ALL
    assert "the API server refused" in result.stderr
    assert result.stdout == "" or not json.loads(result.stdout)
