"""Weights on their way into engine pods: what may be read for it, and what outlives the pods."""

from dataclasses import replace

import pytest

from tandem_engine.serve.options import parse
from tandem_operator.core.role import Role
from tandem_operator.workloads.pass_plan import plan
from tests.unit.workloads.cluster import INSTALLATION, NOW_S, container, pool, template, world

FOLDER = "/var/lib/tandem-cache"
ALLOWED = replace(INSTALLATION, cache_host_paths=(FOLDER, "/mnt/cache"))
REVISION = "tandem-inference.io/revision"


def source(**given):
    return {"model": {"source": {"image": None, **given}}}


def cache(**given):
    return {"model": {"cache": given}}


def planned(*changes, installation=INSTALLATION):
    stored = pool(*changes)
    given = stored["spec"]["model"]["source"]
    stored["spec"]["model"]["source"] = {k: v for k, v in given.items() if v is not None}
    return plan(world(stored, installation=installation), now_s=NOW_S)


def accepted(made):
    return next(each for each in made.status["conditions"] if each["type"] == "Accepted")


def launched(made, role="prefill"):
    settings, _ = parse(container(made, role)["args"][0:])
    return settings


def volumes(made, role="decode"):
    return {each["name"]: each for each in template(made, role)["spec"]["volumes"]}


def environment(made):
    return {each["name"]: each for each in container(made, "decode")["env"]}


def mounted(made):
    mounts = {each["name"]: each for each in container(made, "decode")["volumeMounts"]}
    assert len(mounts) == len(container(made, "decode")["volumeMounts"])
    return mounts


@pytest.mark.parametrize(
    ("short", "typed"),
    [
        (
            {"uri": "hf://acme/llama@v1", "credentialsSecretRef": {"name": "hub"}},
            {
                "huggingFace": {
                    "repo": "acme/llama",
                    "revision": "v1",
                    "tokenSecretRef": {"name": "hub"},
                }
            },
        ),
        (
            {"uri": "pvc://weights/llama"},
            {"persistentVolumeClaim": {"claimName": "weights", "path": "/llama"}},
        ),
        ({"uri": "file:///models/tiny"}, {"image": {"path": "/models/tiny"}}),
    ],
)
def test_a_uri_for_its_typed_form_replaces_no_pod(short, typed):
    one, other = planned(source(**short)), planned(source(**typed))

    assert one.children
    assert one.children == other.children


def test_weights_in_an_image_are_a_volume_that_engines_only_read():
    made = planned(source(uri="oci://ghcr.io/acme/llama:8b"))

    for role in Role:
        assert volumes(made, role)["model"]["image"] == {"reference": "ghcr.io/acme/llama:8b"}
    assert mounted(made)["model"] == {
        "name": "model",
        "mountPath": "/mnt/image",
        "readOnly": True,
    }
    assert launched(made).model == "/mnt/image"


def test_weights_in_a_bucket_are_left_to_vllm():
    made = planned(source(uri="s3://models/llama/"))

    assert launched(made).model == "s3://models/llama"
    assert launched(made).fetch_into is None
    assert "model" not in volumes(made)


def test_pods_that_share_a_cache_fetch_a_bucket_into_it():
    made = planned(source(uri="s3://models/llama"), cache(size="200Gi"))

    assert launched(made).fetch_into == "/cache/models"


def test_keys_for_s3_are_read_from_the_secret_and_no_others():
    made = planned(source(uri="s3://models/llama", credentialsSecretRef={"name": "keys"}))

    references = {
        name: each["valueFrom"]["secretKeyRef"]
        for name, each in environment(made).items()
        if "secretKeyRef" in each.get("valueFrom", {}) and name != "TANDEM_ENGINE_KEY"
    }
    assert references == {
        "AWS_ACCESS_KEY_ID": {"name": "keys", "key": "AWS_ACCESS_KEY_ID"},
        "AWS_SECRET_ACCESS_KEY": {"name": "keys", "key": "AWS_SECRET_ACCESS_KEY"},
        "AWS_SESSION_TOKEN": {"name": "keys", "key": "AWS_SESSION_TOKEN", "optional": True},
    }


def test_a_key_for_gs_is_a_file():
    made = planned(source(uri="gs://models/llama", credentialsSecretRef={"name": "keys"}))

    secret = volumes(made)["model-credentials"]["secret"]
    mount = mounted(made)["model-credentials"]
    (item,) = secret["items"]
    assert (secret["secretName"], item["key"]) == ("keys", "credentials.json")
    assert mount["readOnly"] is True
    file = environment(made)["GOOGLE_APPLICATION_CREDENTIALS"]["value"]
    assert file == f"{mount['mountPath']}/{item['path']}"


def test_new_credentials_and_another_cache_let_new_pods_pair_with_old_ones():
    bucket = {"uri": "s3://models/llama"}
    keyed = {**bucket, "credentialsSecretRef": {"name": "keys"}}

    def revision(*changes):
        made = planned(*changes, installation=ALLOWED)
        return template(made, "decode")["metadata"]["labels"][REVISION]

    same = {
        revision(source(**bucket)),
        revision(source(**keyed)),
        revision(source(**keyed), cache(size="1Gi")),
        revision(source(**keyed), cache(hostPath={"path": FOLDER})),
    }
    assert len(same) == 1
    assert revision(source(uri="s3://models/other")) not in same


@pytest.mark.parametrize("uri", ["hf://acme/llama", "s3://models/llama"])
def test_a_list_of_secrets_holds_for_credentials_too(uri):
    listed = replace(INSTALLATION, hub_token_secrets=("keys",))

    def told(secret):
        given = source(uri=uri, credentialsSecretRef={"name": secret})
        return accepted(planned(given, installation=listed))

    assert told("keys")["status"] == "True"
    assert "credentialsSecretRef.name must be a Secret that" in told("deployer")["message"]


def test_a_cache_on_nodes_is_one_folder_that_engines_must_be_able_to_write_to():
    made = planned(cache(hostPath={"path": FOLDER}), installation=ALLOWED)

    for role in Role:
        assert volumes(made, role)["cache"] == {
            "name": "cache",
            "hostPath": {"path": FOLDER, "type": "DirectoryOrCreate"},
        }
        assert launched(made, role).required_cache == "/cache"
    assert "hostPath" not in str(template(made, "router"))


@pytest.mark.parametrize(
    ("path", "installation", "offered"),
    [
        (FOLDER, INSTALLATION, f"pools.cacheHostPaths: [{FOLDER}]"),
        ("/etc", ALLOWED, f"write /mnt/cache or {FOLDER}"),
        # A pod could have put a link there.
        (f"{FOLDER}/link", ALLOWED, f"write /mnt/cache or {FOLDER}"),
    ],
)
def test_only_folders_that_the_installation_names_may_be_caches(path, installation, offered):
    made = planned(cache(hostPath={"path": path}), installation=installation)

    assert accepted(made)["status"] == "False"
    assert "model.cache.hostPath.path" in accepted(made)["message"]
    assert offered in accepted(made)["message"]
    assert made.children == ()


def test_with_any_pod_template_allowed_any_cache_folder_is_allowed():
    opened = replace(INSTALLATION, any_pod_template=True)

    assert planned(cache(hostPath={"path": "/mnt/x"}), installation=opened).children


def test_a_pod_template_puts_no_other_folder_of_the_node_at_the_cache():
    etc = {"spec": {"volumes": [{"name": "cache", "hostPath": {"path": "/etc"}}]}}
    opened = replace(ALLOWED, any_pod_template=True)

    refused = planned(
        cache(hostPath={"path": FOLDER}), {"decode": {"podTemplate": etc}}, installation=ALLOWED
    )
    over = planned(
        cache(hostPath={"path": FOLDER}), {"decode": {"podTemplate": etc}}, installation=opened
    )

    assert "volumes[cache].hostPath" in accepted(refused)["message"]
    assert volumes(over)["cache"]["hostPath"]["path"] == FOLDER


def claims(made):
    return [each for each in made.children if each["kind"] == "PersistentVolumeClaim"]


def test_a_size_makes_a_claim_that_goes_with_the_pool():
    made = planned(cache(size="200Gi"))

    (claim,) = claims(made)
    assert claim["metadata"]["name"] == "tiny-cache"
    assert claim["metadata"]["ownerReferences"][0]["uid"] == "8f0c"
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "200Gi"}},
    }
    for role in Role:
        assert volumes(made, role)["cache"]["persistentVolumeClaim"] == {"claimName": "tiny-cache"}
        assert template(made, role)["spec"]["securityContext"]["fsGroup"] == 65532
    kinds = [each["kind"] for each in made.children]
    assert kinds.index("PersistentVolumeClaim") < kinds.index("Deployment")


def test_the_storage_class_of_the_claim_is_the_pools():
    (claim,) = claims(planned(cache(size="1Ti", storageClassName="fast")))

    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"] == {"requests": {"storage": "1Ti"}}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (
            source(uri="s3://models/llama", credentialsSecretRef={"name": "My_Keys"}),
            "model.source.credentialsSecretRef.name",
        ),
        (cache(size="1Ti", storageClassName="Fast SSD"), "model.cache.storageClassName"),
    ],
)
def test_names_that_no_object_can_have_are_refused_with_one_that_could(change, field):
    told = accepted(planned(change))

    assert told["status"] == "False"
    assert f"{field} must hold only lower-case letters" in told["message"]
    assert "weights-1" in told["message"]


def test_a_cache_that_the_pool_no_longer_asks_for_is_not_deleted():
    made = planned()

    assert claims(made) == []
    assert ("PersistentVolumeClaim", "tiny-cache") in made.keep


def test_a_larger_cache_replaces_no_pod():
    assert template(planned(cache(size="1Gi")), "decode") == template(
        planned(cache(size="2Gi")), "decode"
    )
