"""The operator on a real API server: what it makes, keeps, leaves alone and lets go."""

import json
import time

import pytest

from tandem_operator.kube.rights import CLUSTER_RIGHTS, LEASE_RIGHTS, POOL_RIGHTS
from tests.integration.operator_process import (
    Pool,
    eventually,
    install_crd,
    node,
    operator,
    rights_role,
)

pytestmark = pytest.mark.timeout(900)

OPERATOR_NAMESPACE = "operator-with-its-rights"
REMOVE_CACHE = '[{"op": "remove", "path": "/spec/model/cache"}]'
MEMORY = ("ConfigMap", "tiny-memory")
CHILDREN = {
    ("Deployment", "tiny-prefill"),
    ("Deployment", "tiny-decode"),
    ("Deployment", "tiny-router"),
    ("Service", "tiny-prefill"),
    ("Service", "tiny-decode"),
    ("Service", "tiny-router"),
    ("Service", "tiny-router-internal"),
    ("ServiceAccount", "tiny-prefill"),
    ("ServiceAccount", "tiny-decode"),
    ("ServiceAccount", "tiny-router"),
    ("PodDisruptionBudget", "tiny-prefill"),
    ("PodDisruptionBudget", "tiny-decode"),
    ("PodDisruptionBudget", "tiny-router"),
    ("NetworkPolicy", "tiny-prefill"),
    ("NetworkPolicy", "tiny-decode"),
    ("NetworkPolicy", "tiny-router"),
    ("Role", "tiny-router"),
    ("RoleBinding", "tiny-router"),
    ("ConfigMap", "tiny-router"),
    MEMORY,
}


@pytest.fixture(scope="module")
def running(control_plane, tmp_path_factory):
    """An operator with exactly the rights that it lists, for all tests of this module."""
    install_crd(control_plane)
    where = {"name": "operator", "namespace": OPERATOR_NAMESPACE}
    made = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": where},
        rights_role(OPERATOR_NAMESPACE, (*POOL_RIGHTS, *CLUSTER_RIGHTS, *LEASE_RIGHTS)),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": OPERATOR_NAMESPACE},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": OPERATOR_NAMESPACE,
            },
            "subjects": [{"kind": "ServiceAccount", **where}],
        },
    ]
    items = {"apiVersion": "v1", "kind": "List", "items": made}
    control_plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(items))
    kubeconfig = control_plane.service_account_kubeconfig(OPERATOR_NAMESPACE, "operator")
    with operator(kubeconfig, tmp_path_factory.mktemp("operator") / "log") as process:
        eventually(lambda: process.probe("/readyz") == 200)
        yield process


@pytest.fixture
def pool(running, control_plane, namespace):
    made = Pool(control_plane, namespace)
    made.apply()
    eventually(lambda: made.objects().keys() >= CHILDREN)
    eventually(lambda: made.get()["status"]["observedGeneration"] == 1)
    eventually(made.is_carried_out)
    return made


def test_makes_every_child_with_the_pool_as_its_owner(pool):
    objects, uid = pool.objects(), pool.get()["metadata"]["uid"]

    for key in CHILDREN:
        owner = objects[key]["metadata"]["ownerReferences"][0]
        assert (owner["uid"], owner["controller"]) == (uid, True)
        assert objects[key]["metadata"]["labels"]["tandem-inference.io/pool"] == "tiny"
    assert "finalizers" not in pool.get()["metadata"]
    assert pool.condition("Accepted")["status"] == "True"
    assert pool.get()["status"]["endpoint"] == f"http://tiny-router.{pool.namespace}.svc"


def test_a_deleted_child_comes_back(pool):
    pool.kubectl("delete", "service", "tiny-decode")
    pool.kubectl("delete", "deployment", "tiny-prefill", "--cascade=foreground")

    eventually(lambda: pool.objects().keys() >= CHILDREN)


def test_deleting_the_pool_collects_all_its_children(pool):
    pool.delete()

    eventually(lambda: not CHILDREN & pool.objects().keys())


def test_a_scale_by_hand_of_a_managed_role_is_taken_back_and_told(pool):
    pool.scale("prefill", 3)

    eventually(lambda: pool.replicas("prefill") == 1)
    event = eventually(
        lambda: [each for each in pool.events() if "spec.replicas" in (each.get("note") or "")]
    )[0]
    assert "kubectl" in event["note"]
    assert "tiny-prefill" in event["note"]


def test_an_external_role_keeps_the_count_of_the_client_that_scales_it(pool):
    pool.apply(decode={"management": "External"})
    eventually(lambda: pool.get()["status"]["observedGeneration"] == 2)
    pool.scale("decode", 3)
    pool.scale("prefill", 3)

    eventually(lambda: pool.replicas("prefill") == 1)
    assert pool.replicas("decode") == 3


def test_a_pool_paused_at_five_keeps_five(pool):
    pool.apply(prefill={"minReplicas": 5, "maxReplicas": 5})
    eventually(lambda: pool.replicas("prefill") == 5)

    pool.apply(scaling={"mode": "Paused"}, prefill={"minReplicas": 1, "maxReplicas": 8})
    eventually(lambda: pool.get()["status"]["observedGeneration"] == 3)
    pool.apply(scaling={"mode": "Paused"}, slo={"tpot": {"target": "26ms"}})
    eventually(lambda: pool.get()["status"]["observedGeneration"] == 4)

    assert pool.replicas("prefill") == 5
    pool.scale("prefill", 2)
    pool.apply(scaling={"mode": "Paused"}, slo={"tpot": {"target": "27ms"}})
    eventually(lambda: pool.get()["status"]["observedGeneration"] == 5)
    assert pool.replicas("prefill") == 2


def written(pool):
    """Return versions of what a spec decides on; memory and pods are written as time goes on."""
    return {
        key: version
        for key, version in pool.versions().items()
        if key[0] != "Pod" and key != MEMORY
    }


def apply_as(pool, manager, body, *options):
    pool.kubectl(
        *("apply", "--server-side", f"--field-manager={manager}", *options, "-f", "-"),
        stdin=json.dumps(body),
    )


def test_a_field_of_another_manager_is_left_and_told_and_all_else_goes_on(pool):
    def theirs(**target):
        port = {"name": "http", "port": 80, "protocol": "TCP", **target}
        metadata = {"name": "tiny-router", "namespace": pool.namespace}
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"ports": [port]},
        }

    apply_as(pool, "team-net", theirs(targetPort=1234), "--force-conflicts")

    found = eventually(lambda: pool.condition("FieldConflict")["status"] == "True" and pool)
    message = found.condition("FieldConflict")["message"]
    assert "team-net" in message
    assert "tiny-router" in message
    assert pool.condition("Accepted")["status"] == "True"
    pool.apply(slo={"tpot": {"target": "26ms"}}, prefill={"minReplicas": 2, "maxReplicas": 4})
    eventually(lambda: pool.replicas("prefill") == 2)
    eventually(lambda: "26" in str(pool.objects()["ConfigMap", "tiny-router"]["data"]))
    assert pool.condition("FieldConflict")["status"] == "True"
    service = pool.objects()["Service", "tiny-router"]
    assert service["spec"]["ports"][0]["targetPort"] == 1234

    apply_as(pool, "team-net", theirs())
    eventually(lambda: pool.condition("FieldConflict")["status"] == "False")
    service = pool.objects()["Service", "tiny-router"]
    assert service["spec"]["ports"][0]["targetPort"] != 1234


def test_a_label_of_a_mesh_on_a_deployment_freezes_no_rollout(pool):
    mesh = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "tiny-decode",
            "namespace": pool.namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "mesh",
                "tandem-inference.io/pool": "another",
            },
        },
    }
    apply_as(pool, "mesh", mesh, "--force-conflicts")
    eventually(lambda: pool.condition("FieldConflict")["status"] == "True")

    pool.apply(engine={"maxNumSeqs": 9})

    def rolled():
        template = pool.deployment("decode")["spec"]["template"]["spec"]
        return "--max-num-seqs=9" in template["containers"][0]["args"]

    eventually(rolled)
    labels = pool.deployment("decode")["metadata"]["labels"]
    assert labels["app.kubernetes.io/managed-by"] == "mesh"
    assert labels["tandem-inference.io/pool"] == "tiny"


def test_an_edit_of_a_pod_template_by_hand_is_taken_back_and_told(pool):
    pool.kubectl("set", "image", "deployment/tiny-decode", "*=evil:1")

    def ours_again():
        containers = pool.deployment("decode")["spec"]["template"]["spec"]["containers"]
        return all(each["image"] == "tandem/engine-cpu:test" for each in containers)

    eventually(ours_again)
    eventually(lambda: any("image" in (each.get("note") or "") for each in pool.events()))


def test_an_slo_edit_changes_one_config_map_and_no_pod_template(pool):
    before = pool.objects()

    pool.apply(slo={"ttft": {"target": "300ms"}}, scaling={"stabilization": "60s"})
    eventually(lambda: pool.get()["status"]["observedGeneration"] == 2)

    after = pool.objects()
    settings = json.loads(after["ConfigMap", "tiny-router"]["data"]["router.json"])
    assert settings["slo"]["ttft_s"] == 0.3
    changed = {
        key
        for key in CHILDREN - {MEMORY}
        if after[key]["metadata"]["resourceVersion"] != before[key]["metadata"]["resourceVersion"]
    }
    assert changed == {("ConfigMap", "tiny-router")}


def test_weights_in_an_image_are_refused_where_pods_would_start_without_them(pool):
    before = written(pool)

    pool.replace_source({"uri": "oci://ghcr.io/acme/llama:8b"})

    eventually(lambda: pool.condition("Accepted")["status"] == "False")
    assert pool.condition("Accepted")["reason"] == "ChildRefused"
    assert "turn on the feature gate ImageVolume" in pool.condition("Accepted")["message"]
    after = written(pool)
    changed = {key for key in after if after[key] != before.get(key)}
    assert changed == {("InferencePool", "tiny")}


def test_a_cache_of_a_size_is_a_claim_that_goes_with_the_pool_and_not_before(pool):
    claims = f"/api/v1/namespaces/{pool.namespace}/persistentvolumeclaims"

    def claim():
        return next(iter(pool.plane.request("GET", claims)["items"]), None)

    pool.apply(model={"cache": {"size": "1Gi"}})
    made = eventually(claim)
    assert made["spec"]["resources"]["requests"] == {"storage": "1Gi"}

    def mounted():
        volumes = pool.deployment("decode")["spec"]["template"]["spec"]["volumes"]
        return [each.get("persistentVolumeClaim") for each in volumes]

    eventually(lambda: {"claimName": "tiny-cache"} in mounted())

    pool.kubectl("patch", "ipool", "tiny", "--type=json", "-p", REMOVE_CACHE)
    eventually(lambda: pool.get()["status"]["observedGeneration"] == 3)
    assert claim()["metadata"]["uid"] == made["metadata"]["uid"]

    pool.delete()
    eventually(lambda: pool.plane.request("GET", claims)["items"] == [])


def test_an_account_that_is_bound_to_an_identity_of_the_cloud_stays_so(pool):
    bound = "eks.amazonaws.com/role-arn"
    pool.kubectl("annotate", "serviceaccount", "tiny-decode", f"{bound}=arn:aws:iam::1:role/r")

    pool.apply(decode={"podTemplate": {"metadata": {"annotations": {"team": "a"}}}})
    eventually(lambda: pool.get()["status"]["observedGeneration"] == 2)

    account = pool.objects()["ServiceAccount", "tiny-decode"]
    assert bound in account["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"tolerations": [{"operator": "Sometimes"}]}, "Sometimes"),
        # What a Deployment cannot hold at all is answered with 500, like an outage.
        ({"nodeSelecter": {"zone": "a"}}, "nodeSelecter: field not declared in schema"),
        ({"nodeSelector": ["zone"]}, "nodeSelector: expected map"),
    ],
)
def test_a_spec_that_the_api_server_refuses_in_a_child_leaves_everything_as_it_is(pool, spec, said):
    before = written(pool)

    pool.apply(decode={"podTemplate": {"spec": spec}})

    eventually(lambda: pool.condition("Accepted")["status"] == "False")
    assert said in pool.condition("Accepted")["message"]
    after = written(pool)
    changed = {key for key in after if after[key] != before.get(key)}
    assert changed == {("InferencePool", "tiny")}

    pool.apply(decode={"podTemplate": {"metadata": {"annotations": {"team": "a"}}}})
    eventually(lambda: pool.condition("Accepted")["status"] == "True")


def test_a_service_of_another_owner_with_our_name_is_not_touched(running, control_plane, namespace):
    control_plane.run_kubectl(
        *("create", "service", "clusterip", "tiny-router", "--tcp=5:5", "-n", namespace)
    )
    pool = Pool(control_plane, namespace)
    pool.apply()

    eventually(lambda: pool.condition("FieldConflict")["status"] == "True")

    assert "does not belong to this pool" in pool.condition("FieldConflict")["message"]
    assert "kubectl-create made it" in pool.condition("Accepted")["message"]
    assert pool.condition("Accepted")["status"] == "False"
    assert ("Deployment", "tiny-prefill") not in pool.objects()
    pool.kubectl("delete", "service", "tiny-router")
    eventually(lambda: pool.objects().keys() >= CHILDREN)


def test_a_pod_made_by_hand_with_the_pools_labels_is_none_of_the_pools(pool):
    pods = f"/api/v1/namespaces/{pool.namespace}/pods"
    [ours] = [
        each
        for each in pool.plane.request("GET", pods)["items"]
        if each["metadata"]["name"].startswith("tiny-decode-")
    ]
    kept = {
        key: ours["metadata"][key] for key in ("labels", "annotations") if key in ours["metadata"]
    }
    forged = {
        "apiVersion": "v1",
        "kind": "Pod",
        # The ReplicaSet's own label is left out: its controller would adopt the pod.
        "metadata": kept | {"name": "by-hand"},
        "spec": {"containers": [{"name": "engine", "image": "mine"}]},
    }
    del forged["metadata"]["labels"]["pod-template-hash"]
    pool.plane.request("POST", pods, forged)
    with node(pool.plane):
        pool.make_pods_ready()

        eventually(lambda: pool.get()["status"]["decode"]["ready"] == 1)
        at_s = time.time()
        eventually(lambda: time.time() > at_s + 8)

        assert pool.get()["status"]["decode"]["ready"] == 1
        written = pool.plane.request("GET", f"{pods}/by-hand")["metadata"].get("annotations") or {}
        assert written == (forged["metadata"].get("annotations") or {})


def test_a_config_map_of_another_owner_is_named_with_its_owner_and_kept(
    running, control_plane, namespace
):
    mine = ("-n", namespace, "configmap", "tiny-memory")
    control_plane.run_kubectl("create", *mine, "--from-literal=page=mine")
    pool = Pool(control_plane, namespace)
    pool.apply()

    eventually(lambda: pool.condition("Accepted")["status"] == "False")

    said = pool.condition("Accepted")["message"]
    assert "ConfigMap tiny-memory exists already" in said
    assert "kubectl-create made it" in said
    assert pool.objects()["ConfigMap", "tiny-memory"]["data"] == {"page": "mine"}
    control_plane.run_kubectl("delete", *mine)
    eventually(lambda: pool.objects().keys() >= CHILDREN)
    eventually(lambda: pool.condition("Accepted")["status"] == "True")


def test_an_autoscaler_on_a_managed_role_is_told_of_and_left_alone(pool):
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "scaler"},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": "tiny-prefill",
            },
            "minReplicas": 3,
            "maxReplicas": 4,
        },
    }
    pool.kubectl("create", "-f", "-", stdin=json.dumps(autoscaler))
    eventually(lambda: pool.replicas("prefill") == 3)
    eventually(lambda: pool.condition("FieldConflict")["status"] == "True")

    before = pool.deployments_version()
    said = pool.condition("FieldConflict")
    assert said["reason"] == "ReplicasContested"
    assert "HorizontalPodAutoscaler scaler changes the replicas of prefill" in said["message"]
    at_s = time.time()
    eventually(lambda: time.time() > at_s + 20)
    assert {count for name, count in pool.counts_since(before) if name == "tiny-prefill"} <= {3}

    pool.apply(prefill={"management": "External"})
    eventually(lambda: pool.condition("FieldConflict")["status"] == "False")


def test_a_pool_made_again_under_its_name_gets_children_of_its_own(pool):
    pool.delete()
    pool.apply()

    uid = pool.get()["metadata"]["uid"]
    eventually(
        lambda: all(
            pool.objects()[key]["metadata"]["ownerReferences"][0]["uid"] == uid for key in CHILDREN
        ),
    )


def test_what_grows_waits_for_what_shrinks(pool):
    pool.apply(prefill={"minReplicas": 3, "maxReplicas": 3})
    eventually(lambda: pool.replicas("prefill") == 3)

    before = pool.deployments_version()
    pool.apply(
        prefill={"minReplicas": 1, "maxReplicas": 1}, decode={"minReplicas": 3, "maxReplicas": 3}
    )
    eventually(lambda: pool.replicas("decode") == 3)

    counts = pool.counts_since(before)
    assert counts.index(("tiny-prefill", 1)) < counts.index(("tiny-decode", 3))


def test_a_second_pool_waits_whole_for_gpus_of_the_namespace_s_quota(
    running, control_plane, namespace
):
    job = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "job", "namespace": namespace},
        "spec": {
            "containers": [
                {"name": "c", "image": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
            ]
        },
    }
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": namespace},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4"}},
    }
    for each in (job, quota):
        control_plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(each))
    # Until a controller has counted what there is, a quota admits no pod.
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/gpus"
    used = {"requests.nvidia.com/gpu": "1"}
    eventually(lambda: control_plane.request("GET", path)["status"]["used"] == used)
    first, second = (
        Pool(control_plane, namespace, "first"),
        Pool(control_plane, namespace, "second"),
    )
    first.apply(engine={"device": "NVIDIA"})
    eventually(lambda: (first.replicas("prefill"), first.replicas("decode")) == (1, 1))

    second.apply(engine={"device": "NVIDIA"}, scaling={"priority": 10})

    # One GPU is free: one role alone could start, and would hold it for nothing.
    eventually(lambda: second.condition("CapacityBlocked")["status"] == "True")
    assert (second.replicas("prefill"), second.replicas("decode")) == (0, 0)
    assert (
        "quota of 4 GPUs is shared with pool first"
        in second.condition("CapacityBlocked")["message"]
    )
    assert (first.replicas("prefill"), first.replicas("decode")) == (1, 1)
    first.kubectl("delete", "pod", "job", "--now")
    eventually(lambda: (second.replicas("prefill"), second.replicas("decode")) == (1, 1))
    eventually(lambda: second.condition("CapacityBlocked")["status"] == "False")
