"""The judgement of Flux and Argo CD on a pool, by their own code and on a real API server."""

import contextlib
import itertools

import pytest

from e2e.cluster.progress import say
from tests.integration.fake_pods import fake_pods
from tests.integration.gitops_tool import GitOpsTool, outcome_of
from tests.integration.kubelet import Kubelet
from tests.integration.operator_process import Pool, eventually, install_crd, node, operator
from tests.unit.workloads.kstatus import verdict

pytestmark = pytest.mark.timeout(900)

KINDS = ("Available", "Ready", "Reconciling", "Stalled")
UNDER_WAY, DONE = ("InProgress", "Progressing"), ("Current", "Healthy")
FAILED = ("Failed", "Degraded")
DECIDES = {UNDER_WAY: "Reconciling", DONE: "Ready", FAILED: "Stalled"}
NO_SUCH_OPERATOR = {"podTemplate": {"spec": {"tolerations": [{"operator": "Sometimes"}]}}}
"""Only the API server refuses it, when the Deployment is applied."""


@pytest.fixture(scope="module")
def tool():
    return GitOpsTool.built()


@pytest.fixture
def pool(control_plane, namespace):
    """A pool that is not applied yet."""
    install_crd(control_plane)
    return Pool(control_plane, namespace)


@contextlib.contextmanager
def acting(pool, folder):
    """Run an operator, a node, and answers of pods, for the block."""
    words = ("--namespace", pool.namespace)
    with (
        node(pool.plane),
        fake_pods() as fake,
        operator(pool.plane.kubeconfig, folder / "log", *words),
    ):
        yield Kubelet(pool, host=fake.host)


def condition(obj, kind):
    """Return one condition; empty if the object does not have it."""
    found = obj["status"].get("conditions", ())
    return next((each for each in found if each["type"] == kind), {})


def states(obj):
    """Return the four conditions of the table, in its order."""
    return tuple(condition(obj, kind).get("status", "-") for kind in KINDS)


def seen(pool, reason):
    """Return the pool, once the status is of this generation and `Ready` has this reason."""

    def look():
        obj = pool.get()
        is_seen = obj["status"]["observedGeneration"] == obj["metadata"]["generation"]
        return obj if is_seen and condition(obj, "Ready")["reason"] == reason else None

    return eventually(look)


def test_both_say_of_each_situation_what_the_guide_says(pool, tmp_path, tool):
    def told(reason):
        obj = seen(pool, reason)
        shown, verdicts = tool.argocd([obj])[0].message, tool.verdicts(obj)
        assert shown == condition(obj, DECIDES[verdicts])["message"]
        return states(obj), verdicts

    pool.apply()
    unseen = pool.get()
    assert (states(unseen), tool.verdicts(unseen)) == (("-",) * 4, UNDER_WAY)
    assert "has not seen" in tool.argocd([unseen])[0].message
    with acting(pool, tmp_path) as kubelet:
        assert told("Starting") == (("False", "False", "True", "False"), UNDER_WAY)
        eventually(lambda: pool.objects_of_kind("Pod") == 3)
        pool.make_pods_ready(host=kubelet.host)
        assert told("RolledOut") == (("True", "True", "False", "False"), DONE)

        pool.apply(decode={"minReplicas": 3})
        assert told("BelowMinimum") == (("True", "False", "True", "False"), UNDER_WAY)
        eventually(lambda: pool.objects_of_kind("Pod") == 5)
        pool.make_pods_ready(host=kubelet.host)
        assert told("RolledOut") == (("True", "True", "False", "False"), DONE)

        pool.apply(decode={"minReplicas": 3}, engine={"blockSize": 32})
        assert told("RollingOut") == (("True", "False", "True", "False"), UNDER_WAY)
        eventually(
            lambda: kubelet.round() or pool.condition("Ready")["status"] == "True", within_s=300
        )
        assert told("RolledOut") == (("True", "True", "False", "False"), DONE)

        pool.apply(decode={"minReplicas": 3, **NO_SUCH_OPERATOR}, engine={"blockSize": 32})
        assert told("ChildRefused") == (("True", "False", "False", "True"), FAILED)
        assert "tolerations[0].operator" in pool.condition("Stalled")["message"]

        pool.apply(decode={"minReplicas": 3}, engine={"blockSize": 32})
        assert told("RolledOut") == (("True", "True", "False", "False"), DONE)


def test_flux_waits_for_a_rollout_gives_up_on_a_refusal_and_sees_no_drift(pool, tmp_path, tool):
    def apply(timeout="10m", **changes):
        return tool.applying(pool.plane.kubeconfig, pool.manifest(**changes), timeout=timeout)

    # Midway between two of its looks, every five seconds: one at the very end is another error.
    early = outcome_of(apply("12500ms"), within_s=180)
    assert f"InferencePool/{pool.namespace}/tiny status: 'InProgress'" in early["error"]
    with acting(pool, tmp_path) as kubelet:
        waits = apply()
        eventually(lambda: pool.objects_of_kind("Pod") == 3)
        assert waits.poll() is None
        pool.make_pods_ready(host=kubelet.host)
        assert "error" not in outcome_of(waits, within_s=180)

        again = outcome_of(apply(), within_s=180)
        assert set(again["changes"].values()) == {"unchanged"}

        refused = outcome_of(apply(decode=NO_SUCH_OPERATOR), within_s=180)
        assert refused["error"].startswith("failed early due to stalled resources")
        assert pool.condition("Available")["status"] == "True"
        say(f"Flux gave up on a refused edit {refused['waited_s']:.1f} s after it")

        mended = outcome_of(apply(), within_s=180)
        assert set(mended["changes"].values()) == {"configured"}
        assert "error" not in mended


def every_status():
    """Yield each state of the deciding conditions, in two orders, of a pool of generation 2."""
    known = (None, "True", "False", "Unknown")
    for found, observed, going, backwards in itertools.product(
        itertools.product(known, repeat=len(KINDS)), (None, -1, 1, 2), (False, True), (False, True)
    ):
        conditions = [
            {"type": kind, "status": state, "reason": "Because", "message": f"{kind} is {state}"}
            for kind, state in zip(KINDS, found, strict=True)
            if state is not None
        ]
        status = {"conditions": conditions[::-1] if backwards else conditions}
        head = {"name": "chat", "namespace": "team", "generation": 2}
        yield {
            "apiVersion": "tandem-inference.io/v1alpha1",
            "kind": "InferencePool",
            "metadata": head | ({"deletionTimestamp": "2026-11-01T00:00:00Z"} if going else {}),
            "status": status | ({} if observed is None else {"observedGeneration": observed}),
        }


def test_kstatus_says_what_the_rules_in_the_unit_tests_say(tool):
    objects = list(every_status())

    assert [each.status for each in tool.kstatus(objects)] == [verdict(each) for each in objects]


def test_argo_cd_and_flux_agree_on_everything_that_a_pool_can_say(tool):
    def is_said(obj):
        found = {kind: condition(obj, kind).get("status") for kind in KINDS}
        return (
            found["Ready"] is not None
            and (found["Reconciling"], found["Stalled"]) != ("True", "True")
            and "observedGeneration" in obj["status"]
            # Argo CD does not ask its checks of an object that is being deleted.
            and "deletionTimestamp" not in obj["metadata"]
        )

    objects = [each for each in every_status() if is_said(each)]

    flux, argocd = tool.kstatus(objects), tool.argocd(objects)
    found = {(one.status, other.status) for one, other in zip(flux, argocd, strict=True)}
    assert found == {UNDER_WAY, DONE, FAILED}
