import pytest

from tandem_operator.workloads.observed.ownership import own_pods, replica_set_uid, replica_sets_of

POOL_UID = "pool"


def owned(kind, owner_uid, *, controller=True, **metadata):
    owner = {"kind": kind, "name": "x", "uid": owner_uid, "controller": controller}
    return {"metadata": {"ownerReferences": [owner]} | metadata}


def labels(component):
    return {"labels": {"tandem-inference.io/role": component}}


def deployment(component):
    made = owned("InferencePool", POOL_UID, uid=f"{component}-deployment", **labels(component))
    return made | {"kind": "Deployment"}


DEPLOYMENTS = tuple(map(deployment, ("prefill", "decode", "router")))
SETS = replica_sets_of(
    [
        owned("Deployment", "prefill-deployment", uid="prefill-set"),
        owned("Deployment", "decode-deployment", uid="decode-set"),
        owned("Deployment", "somebody-elses", uid="other-set"),
        {"metadata": {"uid": "set-of-nobody"}},
    ],
    DEPLOYMENTS,
)


def test_a_replica_set_is_the_pools_where_its_controller_is_one_of_its_deployments():
    assert SETS == {"prefill-set": "prefill", "decode-set": "decode"}


@pytest.mark.parametrize(
    "pod",
    [
        {"metadata": labels("prefill")},
        owned("ReplicaSet", "other-set", **labels("prefill")),
        owned("ReplicaSet", "set-of-nobody", **labels("prefill")),
        owned("ReplicaSet", "a-guess", **labels("prefill")),
        owned("ReplicaSet", "prefill-set", controller=False, **labels("prefill")),
        owned("StatefulSet", "prefill-set", **labels("prefill")),
        owned("ReplicaSet", "decode-set", **labels("prefill")),
        owned("ReplicaSet", "prefill-set"),
    ],
    ids=[
        "made by hand",
        "of another Deployment",
        "of a ReplicaSet of nobody",
        "of no ReplicaSet",
        "owned, not controlled",
        "of another kind",
        "of another component",
        "without a component",
    ],
)
def test_a_pod_that_only_looks_like_the_pools_is_none_of_it(pod):
    assert own_pods([pod], SETS) == ()


def test_a_pod_of_the_pools_own_replica_set_is():
    pod = owned("ReplicaSet", "prefill-set", **labels("prefill"))

    assert own_pods([pod], SETS) == (pod,)
    assert replica_set_uid(pod) == "prefill-set"
