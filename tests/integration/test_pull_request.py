"""The story of `python -m e2e.pull_request` on a real API server; its pods only look Ready."""

import copy
import json

import pytest

from e2e.cluster.gobuild import PROMETHEUS, build, go_problem, is_built
from e2e.pull_request.story import Place, alerts, is_judged, judged, tell
from manifests.generate import ROOT
from tandem_operator.sim.traces.recorded import trace_lines
from tests.integration.fake_pods import fake_pods
from tests.integration.gitops_tool import GitOpsTool
from tests.integration.kubelet import pods_get_ready
from tests.integration.operator_process import Pool, eventually, install_crd, node, operator
from tests.simulation.stories import Phase, told

pytestmark = pytest.mark.timeout(900)

ENGINES = ROOT / "operator/tandem_operator/cli/profiles/h100-llama-3.1-8b.json"


@pytest.fixture
def ground(control_plane, namespace, tmp_path):
    """A namespace with an operator whose pods get Ready; the pool, its place, and its fake pods."""
    GitOpsTool.built()
    if not is_built(PROMETHEUS) and (problem := go_problem()):
        pytest.skip(problem)
    build(PROMETHEUS)
    install_crd(control_plane)
    pool = Pool(control_plane, namespace)
    with (
        node(control_plane),
        fake_pods() as pods,
        operator(control_plane.kubeconfig, tmp_path / "log", "--namespace", namespace) as running,
        pods_get_ready(pool, host=pods.host),
    ):
        place = Place(control_plane.kubeconfig, namespace, pool.name, running.metrics_port)
        yield pool, place, pods


def recorded():
    """Return the records of routers and engines: half a minute of light traffic, and one H100."""
    trace = told([Phase("calm", 30.0, 2.0, 300, 60)], seed=1)
    return {"traffic": "".join(trace_lines(trace)), "engines": ENGINES.read_text()}


def test_a_tighter_slo_goes_from_a_branch_to_the_pool_and_wakes_no_one(ground, tmp_path):
    pool, place, pods = ground
    out = tmp_path / "out"
    old = json.loads(pool.manifest())
    new = copy.deepcopy(old)
    new["spec"]["slo"]["tpot"]["target"] = "28ms"

    findings = tell(place, pools=(old, new), record=recorded, watch_s=15.0, out=out)

    assert [each.sentence for each in findings if not each.shown] == []
    assert any(each.sentence.startswith("3 of 3 pods stayed") for each in findings)
    assert "slo.tpot.target: 35ms -> 28ms" in (out / "comment.md").read_text()
    assert place.bounds()["tpot_s"] == 0.028
    assert "Merge branch 'tighter'" in (out / "history.txt").read_text()
    # Silence says something: the same Prometheus tells of a pool that fails its requests.
    folder = tmp_path / "prometheus"
    folder.mkdir()
    with judged(place, folder) as ask:
        names = {
            role: name for name in place.pods() for role in ("prefill", "decode") if role in name
        }
        pods.load(prefill_pod=names["prefill"], decode_pod=names["decode"])
        eventually(lambda: is_judged(ask, place))
        eventually(lambda: "TandemPoolOutage" in alerts(ask, place, since_s=60.0), within_s=240)
