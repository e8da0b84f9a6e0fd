"""Pod templates: safe by default, the user's where they may be, Tandem's where they must be."""

import json
from dataclasses import replace

import pytest

from tandem_operator.core.role import Role
from tandem_operator.workloads.pass_plan import plan
from tests.unit.workloads.cluster import (
    INSTALLATION,
    NOW_S,
    child,
    container,
    pool,
    template,
    world,
)

COMPONENTS = ["prefill", "decode", "router"]
NVIDIA = {"engine": {"device": "NVIDIA"}, "prefill": {"gpusPerReplica": 4}}


def planned(*changes, **installation):
    given = replace(INSTALLATION, **installation)
    return plan(world(pool(*changes), installation=given), now_s=NOW_S)


def options(args):
    return dict(each.removeprefix("--").split("=", 1) for each in args if "=" in each)


@pytest.mark.parametrize("component", COMPONENTS)
def test_pods_satisfy_the_restricted_pod_security_standard(component):
    made = planned()

    pod = template(made, component)["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    for each in (*pod["containers"], *pod.get("initContainers", ())):
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    assert all("hostPath" not in volume for volume in pod["volumes"])


def test_only_the_router_is_given_an_api_token():
    made = planned()

    tokens = {
        each: template(made, each)["spec"]["automountServiceAccountToken"] for each in COMPONENTS
    }

    assert tokens == {"prefill": False, "decode": False, "router": True}


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_mount_has_its_volume(component):
    pod = template(planned(), component)["spec"]

    containers = (*pod["containers"], *pod.get("initContainers", ()))
    mounted = {mount["name"] for each in containers for mount in each["volumeMounts"]}

    assert mounted <= {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("role", Role)
def test_an_engine_runs_the_launcher_that_an_init_container_copies(role):
    pod = template(planned(), role)["spec"]
    engine, (launcher,) = pod["containers"][0], pod["initContainers"]
    folder, own = (
        next(mount for mount in each["volumeMounts"] if mount["name"] == "launcher")
        for each in (launcher, engine)
    )

    assert launcher["image"] == "tandem/launcher:1"
    assert launcher["command"] == ["/bin/cp", "-R", "/launcher/.", folder["mountPath"]]
    assert engine["command"] == ["python3", own["mountPath"], "serve"]
    assert own == folder | {"readOnly": True}
    assert {"name": "launcher", "emptyDir": {"sizeLimit": "16Mi"}} in pod["volumes"]


def test_the_init_container_takes_no_pod_out_of_the_class_guaranteed():
    (launcher,) = template(planned(), "decode")["spec"]["initContainers"]

    assert launcher["resources"]["requests"] == launcher["resources"]["limits"]
    assert launcher["resources"]["limits"].keys() == {"cpu", "memory"}


def test_what_prepares_a_pod_comes_after_the_launcher_and_may_size_it():
    spec = {
        "initContainers": [
            {"name": "fetch", "image": "fetch:1"},
            {"name": "launcher", "image": "mine:1", "resources": {"limits": {"cpu": "1"}}},
        ]
    }
    made = planned({"decode": {"podTemplate": {"spec": spec}}})
    launcher, fetch = template(made, "decode")["spec"]["initContainers"]

    assert (launcher["name"], launcher["image"]) == ("launcher", "tandem/launcher:1")
    assert launcher["resources"]["limits"] == {"cpu": "1", "memory": "64Mi"}
    assert fetch["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    accepted = next(each for each in made.status["conditions"] if each["type"] == "Accepted")
    assert "decode.podTemplate.spec.initContainers[launcher].image" in accepted["message"]


def test_another_launcher_rolls_the_engines_as_another_engine_image_does():
    before, after = planned(), planned(launcher_image="tandem/launcher:2")

    for role in Role:
        old, new = (template(each, role)["metadata"] for each in (before, after))
        assert old["annotations"] != new["annotations"]
        assert old["labels"] != new["labels"]
    assert template(before, "router") == template(after, "router")


def test_weights_may_load_for_half_an_hour_before_a_probe_gives_up():
    engine = container(planned(), "decode")

    startup = engine["startupProbe"]

    assert startup["httpGet"] == {"path": "/startup", "port": 8001, "scheme": "HTTP"}
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 1800
    assert engine["livenessProbe"]["httpGet"]["path"] == "/live"
    assert engine["readinessProbe"]["httpGet"]["path"] == "/ready"


def test_a_draining_router_stays_ready_for_as_long_as_it_serves_new_requests():
    assert container(planned(), "router")["readinessProbe"]["httpGet"]["path"] == "/accepting"


def test_the_drain_ends_before_the_grace_period():
    longer = {"decode": {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 900}}}}

    args = {
        component: options(container(planned(longer), component)["args"])
        for component in ("prefill", "decode")
    }

    assert args["prefill"]["drain-timeout-s"] == "285"
    assert args["decode"]["drain-timeout-s"] == "885"


def test_gpus_are_requested_and_set_the_tensor_parallel_size():
    made = planned(NVIDIA)

    prefill, decode = container(made, "prefill"), container(made, "decode")

    assert prefill["resources"]["limits"]["nvidia.com/gpu"] == "4"
    assert options(prefill["args"])["tensor-parallel-size"] == "4"
    assert options(decode["args"])["tensor-parallel-size"] == "1"
    assert prefill["image"] == "tandem/engine-gpu:1"


def test_a_cpu_pod_asks_for_no_gpu():
    engine = container(planned(), "prefill")

    assert "nvidia.com/gpu" not in engine["resources"].get("limits", {})
    assert "tensor-parallel-size" not in options(engine["args"])
    assert options(engine["args"])["device"] == "cpu"


def test_a_volume_with_weights_is_mounted_read_only():
    source = {"image": None, "persistentVolumeClaim": {"claimName": "weights", "path": "/llama"}}
    made = planned({"model": {"source": source}})

    pod = template(made, "prefill")["spec"]
    engine = pod["containers"][0]
    (mount,) = [each for each in engine["volumeMounts"] if each["name"] == "model"]
    (volume,) = [each for each in pod["volumes"] if each["name"] == "model"]

    assert mount == {"name": "model", "mountPath": "/mnt/model", "readOnly": True}
    assert volume["persistentVolumeClaim"] == {"claimName": "weights", "readOnly": True}
    assert options(engine["args"])["model"] == "/mnt/model/llama"


def test_a_pod_asks_for_the_resource_that_its_pool_names():
    slice_ = "nvidia.com/mig-1g.10gb"
    made = planned({"engine": {"device": "NVIDIA", "accelerator": {"resource": slice_}}})

    for role in Role:
        engine = container(made, role)
        assert engine["resources"]["requests"] == engine["resources"]["limits"] == {slice_: "1"}
        assert options(engine["args"])["gpu-part"] == "MIG 1g.10gb"


def test_a_pool_on_whole_gpus_says_nothing_of_parts():
    named = {"resource": "nvidia.com/gpu-a100"}
    made = planned({"engine": {"device": "NVIDIA", "accelerator": named}})

    assert "gpu-part" not in options(container(made, "decode")["args"])


CLAIMED = {
    "engine": {"device": "NVIDIA", "accelerator": {"resourceClaimTemplateName": "two-gpus"}},
    "prefill": {"gpusPerReplica": 2},
    "decode": {"gpusPerReplica": 2},
}


def claims(made, component):
    pod = template(made, component)["spec"]
    engine = pod["containers"][0]
    return pod.get("resourceClaims"), engine["resources"].get("claims")


def test_a_pod_claims_its_gpus_by_the_template_that_its_pool_names():
    made = planned(CLAIMED)

    for role in Role:
        assert claims(made, role) == (
            [{"name": "gpus", "resourceClaimTemplateName": "two-gpus"}],
            [{"name": "gpus"}],
        )
        engine = container(made, role)
        assert "nvidia.com/gpu" not in json.dumps(engine["resources"])
        assert options(engine["args"])["tensor-parallel-size"] == "2"
    assert claims(made, "router") == (None, None)


def test_a_role_with_another_number_of_gpus_has_a_claim_of_its_own():
    own = {"resourceClaimTemplateName": "four-gpus"}
    made = planned(CLAIMED, {"decode": {"gpusPerReplica": 4, "engine": own}})

    ((prefill,), _), ((decode,), _) = claims(made, "prefill"), claims(made, "decode")

    assert prefill["resourceClaimTemplateName"] == "two-gpus"
    assert decode["resourceClaimTemplateName"] == "four-gpus"


def test_claims_of_a_pod_template_stand_beside_those_of_gpus():
    nic = {"name": "nic", "resourceClaimTemplateName": "one-nic"}
    engine = {"name": "engine", "resources": {"claims": [{"name": "nic"}]}}
    spec = {"resourceClaims": [nic], "containers": [engine]}
    made = planned(CLAIMED, {"decode": {"podTemplate": {"spec": spec}}})

    on_pod, in_engine = claims(made, "decode")

    assert [each["name"] for each in on_pod] == ["nic", "gpus"]
    assert [each["name"] for each in in_engine] == ["nic", "gpus"]


def test_an_engine_on_amd_asks_for_its_gpus_and_is_told_the_device_that_pytorch_knows():
    amd = {"device": "AMD", "image": "vllm/vllm-openai-rocm:v0.32.0"}
    made = planned({"engine": amd, "prefill": {"gpusPerReplica": 4}})

    prefill = container(made, "prefill")

    assert prefill["resources"]["limits"] == {"amd.com/gpu": "4"}
    assert prefill["image"] == "vllm/vllm-openai-rocm:v0.32.0"
    given = options(prefill["args"])
    assert (given["device"], given["tensor-parallel-size"]) == ("cuda", "4")
    assert "nvidia" not in json.dumps(template(made, "prefill")).lower()


def test_labels_for_a_queue_of_kueue_reach_the_pods():
    queue = {"kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/pod-group-name": "x"}
    fleet = {"podTemplate": {"metadata": {"labels": queue, "annotations": queue}}}

    made = planned({"decode": fleet})

    metadata = template(made, "decode")["metadata"]
    assert queue.items() <= metadata["labels"].items()
    assert queue.items() <= metadata["annotations"].items()


def revision(made):
    (found,) = {
        template(made, role)["metadata"]["labels"]["tandem-inference.io/revision"] for role in Role
    }
    return found


def test_engines_of_another_size_or_claim_are_of_another_revision():
    """They are learned apart, and pair with their own kind."""
    nvidia = {"engine": {"device": "NVIDIA"}}
    larger = {"prefill": {"gpusPerReplica": 2}, "decode": {"gpusPerReplica": 2}}
    other = {"engine": {"accelerator": {"resourceClaimTemplateName": "other"}}}

    made = [(nvidia,), (nvidia, larger), (NVIDIA,), (CLAIMED,), (CLAIMED, other)]

    assert len({revision(planned(*each)) for each in made}) == len(made)


def test_one_gpu_that_is_written_down_is_the_same_as_one_that_is_not():
    one = {"gpusPerReplica": 1}

    assert revision(planned({"engine": {"device": "NVIDIA"}})) == revision(
        planned({"engine": {"device": "NVIDIA"}, "prefill": one, "decode": one})
    )


def test_a_gated_repository_gets_its_token_from_the_secret():
    hub = {
        "repo": "meta-llama/Llama-3.1-8B-Instruct",
        "revision": "0e9e39f",
        "tokenSecretRef": {"name": "hub", "key": "read"},
    }
    made = planned({"model": {"source": {"image": None, "huggingFace": hub}}})

    engine = container(made, "decode")
    (token,) = [each for each in engine["env"] if each["name"] == "HF_TOKEN"]

    assert token["valueFrom"] == {"secretKeyRef": {"name": "hub", "key": "read"}}
    assert options(engine["args"])["model"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert "0e9e39f" in options(engine["args"]).values()


def test_engines_with_a_shared_cache_mount_its_volume_and_may_write_to_it():
    cached = {"model": {"cache": {"persistentVolumeClaim": {"claimName": "weights"}}}}
    made = planned(cached)

    for role in Role:
        pod = template(made, role)["spec"]
        volumes = {each["name"]: each for each in pod["volumes"]}
        assert volumes["cache"]["persistentVolumeClaim"] == {"claimName": "weights"}
        assert "emptyDir" not in volumes["cache"]
        assert pod["securityContext"]["fsGroup"] == 65532
        mounts = {each["name"]: each for each in container(made, role)["volumeMounts"]}
        assert mounts["cache"] == {"name": "cache", "mountPath": "/cache"}
    assert "fsGroup" not in template(made, "router")["spec"]["securityContext"]


def test_a_cache_changes_no_revision_so_new_pods_pair_with_old_ones():
    cached = {"model": {"cache": {"persistentVolumeClaim": {"claimName": "weights"}}}}

    assert revision(planned(cached)) == revision(planned())


def test_a_pod_template_adds_what_rdma_needs():
    spec = {
        "nodeSelector": {"rdma": "yes"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "volumes": [{"name": "hugepages", "emptyDir": {"medium": "HugePages"}}],
        "containers": [
            {
                "name": "engine",
                "env": [{"name": "UCX_TLS", "value": "rc"}],
                "resources": {"limits": {"rdma/ib": 1}},
                "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                "volumeMounts": [{"name": "hugepages", "mountPath": "/dev/hugepages"}],
            }
        ],
    }
    made = planned(NVIDIA, {"prefill": {"podTemplate": {"spec": spec}}}, any_pod_template=True)

    pod = template(made, "prefill")["spec"]
    engine = pod["containers"][0]

    assert pod["nodeSelector"] == {"rdma": "yes"}
    assert pod["tolerations"] == spec["tolerations"]
    assert {"name": "UCX_TLS", "value": "rc"} in engine["env"]
    assert engine["resources"]["limits"] == {"rdma/ib": 1, "nvidia.com/gpu": "4"}
    assert engine["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert {"/dev/hugepages", "/dev/shm"} <= {m["mountPath"] for m in engine["volumeMounts"]}
    assert "nodeSelector" not in template(made, "decode")["spec"]


COMPONENTS = ("prefill", "decode", "router")
ZONE = {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}


def placed(*changes):
    made = planned({"placement": {"priorityClassName": "gold", "topologySpread": [ZONE]}}, *changes)
    return {component: template(made, component)["spec"] for component in COMPONENTS}


def test_priority_class_and_spread_are_set_for_all_components_in_one_place():
    for component, spec in placed().items():
        assert spec["priorityClassName"] == "gold"
        (spread,) = spec["topologySpreadConstraints"]
        assert ZONE.items() <= spread.items()
        assert spread["maxSkew"] == 1
        selected = spread["labelSelector"]["matchLabels"]
        assert selected["tandem-inference.io/role"] == component


def test_a_pod_template_places_its_own_component_otherwise():
    over_racks = {"topologyKey": "rack", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"}
    given = {"priorityClassName": "lead", "topologySpreadConstraints": [over_racks]}

    specs = placed({"decode": {"podTemplate": {"spec": given}}})

    assert specs["decode"]["priorityClassName"] == "lead"
    assert over_racks in specs["decode"]["topologySpreadConstraints"]
    assert specs["prefill"]["priorityClassName"] == specs["router"]["priorityClassName"] == "gold"


@pytest.mark.parametrize("component", COMPONENTS)
def test_pods_are_spread_over_nodes_where_that_can_be(component):
    (spread,) = template(planned(), component)["spec"]["topologySpreadConstraints"]

    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"


@pytest.mark.parametrize(("mib", "limit"), [(None, "896Mi"), (64, "704Mi"), (1024, "3584Mi")])
def test_the_memory_of_a_router_is_bounded_by_what_bodies_may_take(mib, limit):
    limits = {} if mib is None else {"inFlightBodyBytes": mib << 20}
    made = planned({"router": {"limits": limits}})

    assert container(made, "router")["resources"]["limits"] == {"memory": limit}


def test_what_a_router_gets_by_its_author_is_all_that_it_gets():
    made = planned({"router": {"resources": {"requests": {"memory": "8Gi"}}}})

    assert container(made, "router")["resources"] == {"requests": {"memory": "8Gi"}}


def test_our_fields_win_over_a_pod_template_and_are_named():
    theirs = {
        "metadata": {"labels": {"tandem-inference.io/role": "mine", "team": "search"}},
        "spec": {
            "containers": [
                {"name": "engine", "image": "mine:1", "args": ["--help"]},
                {"name": "logs", "image": "logs:1"},
            ]
        },
    }
    made = planned({"decode": {"podTemplate": theirs}})

    labels = template(made, "decode")["metadata"]["labels"]
    accepted = next(each for each in made.status["conditions"] if each["type"] == "Accepted")

    assert labels["tandem-inference.io/role"] == "decode"
    assert labels["team"] == "search"
    assert container(made, "decode")["image"] == "tandem/engine-cpu:1"
    assert [each["name"] for each in template(made, "decode")["spec"]["containers"]] == [
        "engine",
        "logs",
    ]
    assert accepted["status"] == "True"
    for field in (
        "decode.podTemplate.metadata.labels.tandem-inference.io/role",
        "decode.podTemplate.spec.containers[engine].args",
        "decode.podTemplate.spec.containers[engine].image",
    ):
        assert field in accepted["message"]
    assert "FieldsOverridden" in {event.reason for event in made.events}


@pytest.mark.parametrize(
    "edit",
    [
        {"slo": {"tpot": {"target": "10ms"}, "attainment": "99%"}},
        {"scaling": {"mode": "Paused", "gpuBudget": 9, "stabilization": "5m", "maxStep": 1}},
        {"prefill": {"minReplicas": 2, "maxReplicas": 9}, "decode": {"management": "External"}},
        {"router": {"timeouts": {"idle": "5s"}, "limits": {"bodyBytes": 2048}}},
        {"metrics": {"source": "Direct"}},
        {"model": {"aliases": ["llama", "gpt-4"]}},
    ],
)
def test_tuning_restarts_nothing(edit):
    before, after = planned(), planned(edit)

    for component in COMPONENTS:
        assert template(after, component) == template(before, component)


def test_an_slo_edit_changes_the_router_settings_and_no_other_object():
    before = plan(world(pool()), now_s=NOW_S)
    edited = pool({"slo": {"tpot": {"target": "10ms"}}}, generation=2)
    after = plan(world(edited), now_s=NOW_S)

    changed = [
        (new["kind"], new["metadata"]["name"])
        for old, new in zip(before.children, after.children, strict=True)
        if old != new
    ]

    assert changed == [("ConfigMap", "tiny-router")]


def test_routers_are_told_every_name_of_the_model_and_the_engines_own_first():
    made = planned({"model": {"aliases": ["llama", "gpt-4"]}})
    settings = json.loads(child(made.children, "ConfigMap", "tiny-router")["data"]["router.json"])

    assert settings["models"] == ["tiny", "llama", "gpt-4"]
    assert "--served-model-name=tiny" in container(made, "decode")["args"]


def revisions(*changes):
    made = planned(*changes)
    labels = [template(made, role)["metadata"]["labels"] for role in Role]
    return [each["tandem-inference.io/revision"] for each in labels]


def test_both_roles_carry_one_revision():
    prefill, decode = revisions({"prefill": {"resources": {"limits": {"cpu": 1}}}})

    assert prefill == decode


@pytest.mark.parametrize(
    "edit",
    [
        {"engine": {"image": "other:2"}},
        {"engine": {"dtype": "bfloat16"}},
        {"engine": {"blockSize": 64}},
        {"engine": {"extraArgs": ["--kv-cache-dtype=fp8"]}},
        {"prefill": {"engine": {"image": "other:2"}}},
        {"engine": {"device": "NVIDIA"}},
        {"decode": {"engine": {"quantization": "fp8"}}},
        {"model": {"source": {"image": {"path": "/models/other"}}}},
    ],
)
def test_what_kv_blocks_depend_on_makes_a_new_revision(edit):
    assert revisions(edit) != revisions()


@pytest.mark.parametrize(
    "edit",
    [
        {"prefill": {"resources": {"limits": {"cpu": "500m"}}}},
        {"engine": {"maxNumSeqs": 32}},
        {"engine": {"kvCacheMemory": "128Mi"}},
        {"engine": {"extraArgs": ["--max-num-batched-tokens=4096"]}},
        {"decode": {"podTemplate": {"metadata": {"labels": {"team": "search"}}}}},
    ],
)
def test_what_kv_blocks_do_not_depend_on_keeps_the_revision(edit):
    assert revisions(edit) == revisions()


@pytest.mark.parametrize(
    "own",
    [
        {"maxNumSeqs": 32},
        {"kvCacheMemory": "128Mi"},
        {"prefixCaching": False},
        {"extraArgs": ["--max-num-batched-tokens=16384", "--no_enable_chunked_prefill"]},
    ],
)
@pytest.mark.parametrize("role", Role)
def test_what_one_role_has_for_itself_rolls_its_pods_and_no_others(role, own):
    before, after = planned(), planned({role: {"engine": own}})

    changed = [each for each in Role if template(before, each) != template(after, each)]

    assert changed == [role]
    assert revisions({role: {"engine": own}}) == revisions()


def test_a_list_of_one_role_takes_the_place_of_the_list_of_both():
    made = planned({"engine": {"extraArgs": ["--seed=1"]}, "decode": {"engine": {"extraArgs": []}}})

    assert "--extra-arg=--seed=1" in container(made, "prefill")["args"]
    assert not any(each.startswith("--extra-arg") for each in container(made, "decode")["args"])


def test_each_role_runs_its_own_image():
    made = planned({"prefill": {"engine": {"image": "acme/prefill:1"}}})

    assert container(made, "prefill")["image"] == "acme/prefill:1"
    assert container(made, "decode")["image"] == "tandem/engine-cpu:1"


@pytest.mark.parametrize(
    ("both", "prefill", "decode"),
    [
        (["--kv-cache-dtype=fp8"], ["--seed=1"], None),
        ([], ["--kv-cache-dtype=fp8"], ["--kv-cache-dtype=auto"]),
        ([], None, ["--speculative-config.method=ngram"]),
        ([], ["--decode-context-parallel-size=2"], []),
    ],
)
def test_roles_whose_options_give_other_kv_blocks_are_refused(both, prefill, decode):
    made = planned(
        {
            "engine": {"device": "NVIDIA", "extraArgs": both},
            "prefill": {"engine": None if prefill is None else {"extraArgs": prefill}},
            "decode": {"engine": None if decode is None else {"extraArgs": decode}},
        }
    )

    assert made.children == ()
    assert "may shape KV blocks or text" in str(made.status)


def test_the_same_options_in_another_order_and_spelling_are_the_same():
    shared = ["--kv-cache-dtype=fp8", "--tokenizer-mode=slow"]
    other = ["--tokenizer_mode=slow", "--seed=2", "--kv_cache_dtype=fp8"]
    device = {"engine": {"device": "NVIDIA", "extraArgs": shared}}

    assert revisions(device, {"prefill": {"engine": {"extraArgs": other}}}) == revisions(device)
