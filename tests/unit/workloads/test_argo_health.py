"""The health check that users give Argo CD, in the Lua that Argo CD has, says what kstatus says."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from lupa.lua51 import LuaRuntime

from tandem_operator.api.v1alpha1 import GROUP, KIND
from tests.unit.workloads.cluster import pool, with_pod
from tests.unit.workloads.kstatus import CURRENT, FAILED, IN_PROGRESS, verdict
from tests.unit.workloads.rollouts import NEW_PODS, REFUSED, edited, serving, told

PATCH = Path(__file__).parents[3] / "manifests/argocd/argocd-cm-health.yaml"
SAYS = {CURRENT: "Healthy", IN_PROGRESS: "Progressing", FAILED: "Degraded"}


def check():
    (script,) = [
        text
        for key, text in yaml.safe_load(PATCH.read_text())["data"].items()
        if key == f"resource.customizations.health.{GROUP}_{KIND}"
    ]
    lua = LuaRuntime()
    # Argo CD runs the text as a chunk with the object as the global `obj`.
    run = lua.eval("function(script, object) obj = object; return assert(loadstring(script))() end")

    def health(obj):
        answer = run(script, lua.table_from(obj, recursive=True))
        return answer["status"], answer["message"]

    return health


HEALTH = check()


@pytest.mark.parametrize(
    ("found", "status", "kind"),
    [
        (told(serving()), "Healthy", "Ready"),
        (told(edited(serving(), NEW_PODS)), "Progressing", "Reconciling"),
        (told(edited(serving(), NEW_PODS), REFUSED), "Degraded", "Stalled"),
        (told(serving({"decode": {"minReplicas": 3}})), "Progressing", "Reconciling"),
        (told(with_pod(serving(), "decode")), "Progressing", "Reconciling"),
    ],
    ids=["rolled out", "rolling out", "refused", "below its minimum", "without decode"],
)
def test_argo_cd_shows_the_condition_that_decides(found, status, kind):
    (condition,) = [each for each in found["status"]["conditions"] if each["type"] == kind]

    assert HEALTH(found) == (status, condition["message"])


@pytest.mark.parametrize("status", [None, {"observedGeneration": -1}], ids=["none", "the default"])
def test_a_pool_that_no_operator_saw_is_progressing(status):
    assert HEALTH(pool(status=status))[0] == "Progressing"


def test_an_edit_that_no_operator_saw_is_progressing():
    live = serving()

    assert HEALTH(replace(live, pool=edited(live, NEW_PODS).pool).pool)[0] == "Progressing"


CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["Ready", "Available", "Reconciling", "Stalled", "SLOMet"]),
            "status": st.sampled_from(["True", "False", "Unknown"]),
            "message": st.text("ab", max_size=2),
        }
    ),
    unique_by=lambda condition: condition["type"],
)


@given(CONDITIONS, st.integers(-1, 2))
def test_argo_cd_and_flux_never_disagree(conditions, observed):
    true = {each["type"] for each in conditions if each["status"] == "True"}
    # A pool never says both, and is never silent on whether it is ready.
    assume(not true >= {"Reconciling", "Stalled"})
    assume("Ready" in {each["type"] for each in conditions})
    obj = pool(generation=1, status={"observedGeneration": observed, "conditions": conditions})

    assert HEALTH(obj)[0] == SAYS[verdict(obj)]
