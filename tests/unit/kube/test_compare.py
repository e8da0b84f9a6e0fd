import pytest

from tandem_operator.kube.compare import HASH_ANNOTATION, differences, with_hash


def container(**fields):
    return {"spec": {"containers": [{"name": "engine", **fields}]}}


def found(desired, observed):
    return [".".join(path) for path in differences(desired, observed)]


def test_fields_that_the_api_server_or_others_added_are_no_difference():
    observed = {
        "spec": {
            "clusterIP": "10.0.0.7",
            "ports": [{"name": "http", "port": 80, "targetPort": 8000, "protocol": "TCP"}],
            "containers": [
                {"name": "mesh-sidecar"},
                {"name": "engine", "image": "e:1", "terminationMessagePath": "/dev/log"},
            ],
        }
    }

    assert not found({"spec": {"ports": [{"name": "http", "port": 80}]}}, observed)
    assert not found(container(image="e:1"), observed)


def test_a_changed_value_is_named_by_its_path():
    desired = container(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])
    observed = container(env=[{"name": "B", "value": "3"}, {"name": "A", "value": "1"}])

    assert found(desired, observed) == ["spec.containers.engine.env.B.value"]


def test_a_missing_item_is_a_difference():
    desired = container(env=[{"name": "A", "value": "1"}])

    assert found(desired, container(env=[])) == [
        "spec.containers.engine.env.A",
    ]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        (2, "2"),
        ("1024Mi", "1Gi"),
        ("1e3", "1k"),
        ("1.5Gi", "1536Mi"),
    ],
)
def test_quantities_are_compared_by_value(ours, theirs):
    desired = container(resources={"limits": {"cpu": ours}})

    assert not found(desired, container(resources={"limits": {"cpu": theirs}}))


def test_values_that_look_like_quantities_elsewhere_are_compared_as_they_are():
    desired = container(env=[{"name": "LIMIT", "value": "1000m"}])

    assert found(desired, container(env=[{"name": "LIMIT", "value": "1"}]))


def test_different_quantities_differ():
    desired = container(resources={"limits": {"cpu": "1500m"}})

    assert found(desired, container(resources={"limits": {"cpu": "1"}}))


def test_arguments_are_one_value():
    assert found(container(args=["a", "b"]), container(args=["b", "a"]))
    assert found(container(args=["a"]), container(args=["a", "b"]))


def test_empty_fields_that_the_api_server_drops_are_no_difference():
    desired = {"metadata": {"annotations": {}}, "spec": {"volumes": [], "nodeName": None}}

    assert not found(desired, {"metadata": {"name": "x"}, "spec": {}})


def test_mounts_are_told_apart_by_their_path_since_a_volume_may_be_mounted_twice():
    mounts = [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b", "readOnly": True}]
    desired, observed = container(volumeMounts=mounts), container(volumeMounts=mounts[::-1])

    assert not found(desired, observed)


def test_the_hash_changes_when_a_field_is_no_longer_applied():
    body = {"metadata": {"name": "x", "annotations": {"a": "1"}}, "spec": {"a": 1, "b": 2}}
    less = {**body, "spec": {"a": 1}}

    assert found(with_hash(less), with_hash(body)) == [f"metadata.annotations.{HASH_ANNOTATION}"]
    assert with_hash(body)["metadata"]["annotations"]["a"] == "1"
    assert HASH_ANNOTATION not in body["metadata"]["annotations"]
