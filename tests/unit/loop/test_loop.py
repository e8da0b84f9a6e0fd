import pytest

from tandem_operator.api import InferencePool
from tandem_operator.kube.client import ApiServerError
from tandem_operator.kube.counts import as_if_ours, replicas_last_decided
from tandem_operator.workloads import pass_basis, pass_plan
from tandem_operator.workloads.world import Installation, World
from tests.unit.loop.store import KEY, own
from tests.unit.workloads.cluster import pool

INSTALLATION = Installation(
    router_image="r", launcher_image="l", engine_image_cpu="c", engine_image_gpu="g"
)


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
    stored = {"metadata": {"namespace": "ns", "name": "tiny", "uid": "u"}}
    return World(pool=stored, installation=INSTALLATION, children=children)


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


EXTERNAL = {"management": "External"}


def left(*changes, generation=1, accepted="True"):
    """Return a pool as a process left it at generation 1, and as it is now."""
    condition = {"type": "Accepted", "status": accepted, "observedGeneration": 1}
    status = {
        "observedGeneration": 1,
        "conditions": [condition],
        "prefill": {"desired": 3},
        "decode": {"desired": 2},
    }
    return pool(*changes, generation=generation, status=status)


def last_decided(stored):
    parsed = pass_basis.parsed_pool(stored)
    spec = parsed.spec if isinstance(parsed, InferencePool) else None
    return replicas_last_decided(stored, spec)


def test_a_new_process_starts_from_what_the_last_one_wrote():
    assert last_decided(left()) == {"prefill": 3, "decode": 2}


@pytest.mark.parametrize(
    "stored",
    [
        pool(),
        pool(status={"observedGeneration": 1}),
        left({"scaling": {"mode": "Recommend"}}),
        left({"prefill": EXTERNAL, "decode": EXTERNAL}),
        left({"model": {"maxModelLen": "many"}}),
        left(accepted="False"),
    ],
)
def test_a_count_that_the_status_lacks_is_not_taken_for_ours(stored):
    assert last_decided(stored) == {}


def test_what_was_recommended_to_another_owner_is_not_taken_for_ours():
    assert last_decided(left({"decode": EXTERNAL})) == {"prefill": 3}


def test_after_an_edit_nothing_is_taken_for_ours():
    assert last_decided(left(generation=2)) == {}


async def test_a_role_handed_over_while_no_operator_runs_keeps_its_count(store):
    store.pool["spec"]["decode"] |= EXTERNAL
    await store.passes()
    decode = store.kinds["deployments"]["tiny-decode"]
    decode["spec"]["replicas"] = 7
    own(decode, "kube-controller-manager")
    assert store.pool["status"]["decode"]["desired"] == 1

    store.edit({"decode": {"management": "Managed"}})
    store.restart()
    await store.passes()

    assert store.kinds["deployments"]["tiny-decode"]["spec"]["replicas"] == 7


async def test_a_scale_by_hand_while_no_operator_runs_is_taken_back_beside_an_external_role(store):
    store.pool["spec"]["decode"] |= EXTERNAL
    await store.passes()
    prefill = store.kinds["deployments"]["tiny-prefill"]
    prefill["spec"]["replicas"] = 7
    own(prefill, "kubectl")

    store.restart()
    await store.passes()

    assert store.kinds["deployments"]["tiny-prefill"]["spec"]["replicas"] == 1


async def test_what_grows_waits_for_a_pass_that_has_seen_the_shrink(store):
    def counts():
        found = store.kinds["deployments"]
        return [found[name]["spec"]["replicas"] for name in ("tiny-prefill", "tiny-decode")]

    store.edit({"prefill": {"minReplicas": 3, "maxReplicas": 3}})
    await store.passes()
    assert counts() == [3, 1]

    store.edit(
        {
            "prefill": {"minReplicas": 1, "maxReplicas": 1},
            "decode": {"minReplicas": 3, "maxReplicas": 3},
        }
    )
    await store.passes()
    assert counts() == [1, 1]
    await store.passes()
    assert counts() == [1, 3]


async def test_an_edit_that_is_told_while_its_kind_is_listed_is_taken_back_by_the_next_pass(store):
    await store.passes(2)
    ours = store.kinds["services"]["tiny-router"]["spec"]["ports"]

    def edit(plural):
        if plural == "services":
            store.kinds[plural]["tiny-router"]["spec"]["ports"] = []
            store.loop.children_changed(KEY)
            store.listed = lambda _: None

    store.loop.children_changed(KEY)
    store.listed = edit
    await store.passes()
    assert store.kinds["services"]["tiny-router"]["spec"]["ports"] == []

    await store.passes()
    assert store.kinds["services"]["tiny-router"]["spec"]["ports"] == ours


async def test_a_child_that_cannot_be_written_now_is_tried_again_and_not_called_refused(store):
    store.refusals["deployments", "tiny-decode"] = (500, "etcdserver: request timed out")

    with pytest.raises(ApiServerError, match="timed out"):
        await store.passes()


async def test_a_child_that_its_kind_cannot_hold_is_called_refused(store):
    sentence = ".spec.template.spec.nodeSelecter: field not declared in schema"
    malformed = f"failed to create typed patch object (serving/tiny-decode; apps/v1): {sentence}"
    store.refusals["deployments", "tiny-decode"] = (500, malformed)

    await store.passes()

    accepted = store.condition("Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "ChildRefused")
    assert accepted["message"].endswith(f"Deployment tiny-decode: {sentence}")


async def test_a_typo_in_a_pod_template_is_told_in_one_pass_and_what_runs_is_left_as_it_is(store):
    await store.passes(2)
    before = dict(store.kinds["deployments"])
    store.edit({"decode": {"podTemplate": {"spec": {"nodeSelectr": {"zone": "a"}}}}})
    sentence = ".spec.template.spec.nodeSelectr: field not declared in schema"
    malformed = f"failed to create typed patch object (serving/tiny-decode; apps/v1): {sentence}"
    store.refusals["deployments", "tiny-decode"] = (500, malformed)

    await store.passes()

    accepted = store.condition("Accepted")
    assert "decode.podTemplate.spec.nodeSelectr: Kubernetes" in accepted["message"]
    assert "did you mean nodeSelector?" in accepted["message"]
    assert store.kinds["deployments"] == before


async def test_a_pass_at_rest_reads_parses_and_renders_the_pool_once(store, monkeypatch):
    await store.passes(3)
    calls = []

    def counted(module, name):
        original = getattr(module, name)

        def call(*args, **kwargs):
            calls.append(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, call)

    for name in ("parse_pool", "templates_of", "see"):
        for module in (pass_basis, pass_plan):
            if hasattr(module, name):
                counted(module, name)
    await store.passes()

    assert sorted(calls) == ["parse_pool", "see", "templates_of"]
