import pytest

from tandem_operator.loop import as_if_ours, replicas_last_decided
from tandem_operator.workloads.world import Installation, World

INSTALLATION = Installation(router_image="r", engine_image_cpu="c", engine_image_gpu="g")


def deployment(component, *, replicas, owner):
    fields = {"f:spec": {"f:replicas": {}}}
    return {
        "kind": "Deployment",
        "metadata": {
            "name": f"tiny-{component}",
            "managedFields": [{"manager": owner, "fieldsV1": fields}] if owner else [],
        },
        "spec": {"replicas": replicas, "paused": False},
    }


def world(*children):
    pool = {"metadata": {"namespace": "ns", "name": "tiny", "uid": "u"}}
    return World(pool=pool, installation=INSTALLATION, children=children)


def seen(after):
    return [child["spec"]["replicas"] for child in after.children if child["kind"] == "Deployment"]


def test_a_count_that_a_person_set_on_our_role_is_seen_as_what_we_wrote():
    after = as_if_ours(world(deployment("prefill", replicas=7, owner="kubectl")), {"prefill": 5})

    assert seen(after) == [5]


@pytest.mark.parametrize(
    ("owner", "written"),
    [
        ("tandem-replicas", {"prefill": 5}),
        ("kubectl", {}),
        ("kubectl", {"decode": 5}),
        (None, {"prefill": 5}),
    ],
)
def test_a_count_that_is_ours_or_not_managed_is_seen_as_it_is(owner, written):
    after = as_if_ours(world(deployment("prefill", replicas=7, owner=owner)), written)

    assert seen(after) == [7]


def test_the_observed_object_itself_is_left_as_it_is():
    found = deployment("prefill", replicas=7, owner="kubectl")
    service = {"kind": "Service", "metadata": {"name": "tiny-prefill"}, "spec": {}}

    after = as_if_ours(world(found, service), {"prefill": 5})

    assert found["spec"]["replicas"] == 7
    assert after.children[1] is service


def status(active, **desired):
    condition = {"type": "ScalingActive", "status": active}
    roles = {role: {"desired": count} for role, count in desired.items()}
    return {"status": {"conditions": [condition], **roles}}


def test_a_new_process_starts_from_what_the_last_one_wrote():
    assert replicas_last_decided(status("True", prefill=3)) == {"prefill": 3}


@pytest.mark.parametrize("pool", [{}, {"status": {}}, status("False", prefill=3)])
def test_what_nobody_wrote_is_not_taken_for_ours(pool):
    assert replicas_last_decided(pool) == {}
