"""The owner of a PoolRole's count, and which autoscalers have no target."""

from tandem_operator.api import parse_pool
from tandem_operator.core.role import Role
from tandem_operator.kube.autoscalers import Autoscalers
from tandem_operator.kube.counts import asked_of
from tandem_operator.workloads.builders.pool_roles import pool_role
from tandem_operator.workloads.pool_names import PoolName
from tests.unit.kube.apiserver import Clock
from tests.unit.kube.test_autoscalers import scaler
from tests.unit.workloads.cluster import pool

EXTERNAL = parse_pool(pool({"decode": {"management": "External"}})).spec
BOTH_EXTERNAL = parse_pool(
    pool({role: {"management": "External"} for role in ("prefill", "decode")})
).spec
MANAGED = parse_pool(pool()).spec


NAME = PoolName("serving", "tiny", "8f0c")


def asked_by(children, spec):
    return asked_of(children, spec, name=NAME)


def written(*managers, replicas=3):
    found = pool_role(NAME, Role.DECODE)
    found["spec"] = {"replicas": replicas}
    found["metadata"]["managedFields"] = [
        {"manager": manager, "fieldsV1": {"f:spec": {"f:replicas": {}}}} for manager in managers
    ]
    return [found]


def test_a_count_that_another_client_wrote_is_asked_for():
    assert asked_by(written("kube-controller-manager"), EXTERNAL) == {"decode": 3}
    assert asked_by(written("tandem-replicas", "argocd"), EXTERNAL) == {"decode": 3}


def test_a_zero_that_came_by_scale_has_no_owner_and_is_asked_for():
    assert asked_by(written(replicas=0), EXTERNAL) == {"decode": 0}
    assert asked_by(written("tandem-replicas", replicas=0), EXTERNAL) == {}


def test_a_copy_of_the_deployments_count_asks_for_nothing():
    assert asked_by(written("tandem-replicas"), EXTERNAL) == {}
    assert asked_by(written(), EXTERNAL) == {}


def test_a_pool_role_belongs_to_a_pool_by_its_name_as_others_may_edit_labels():
    [found] = written("kubectl")
    found["metadata"]["labels"]["tandem-inference.io/role"] = "prefill"

    assert asked_by([found], EXTERNAL) == {"decode": 3}
    assert asked_by([found], BOTH_EXTERNAL) == {"decode": 3}


def test_a_managed_role_is_asked_nothing():
    assert asked_by(written("kubectl"), MANAGED) == {}
    assert asked_by(written("kubectl"), None) == {}


async def test_autoscalers_of_pool_roles_that_do_not_exist_are_found_by_role(api):
    kube, recorder = api
    recorder.lists = {
        "horizontalpodautoscalers": [
            scaler("deployment", "tiny-prefill"),
            scaler("web", "tiny-prefill", kind="PoolRole"),
            scaler("other", "big-decode", kind="PoolRole"),
        ]
    }
    autoscalers = Autoscalers(kube, clock=Clock())

    found = await autoscalers.waiting(["prefill", "decode"], namespace="ns", pool="tiny")

    assert found == {"prefill": "web"}
