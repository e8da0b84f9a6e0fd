"""Installing, upgrading and removing the operator leaves pools alone."""

from benchmarks.load.plan import Lengths, Traffic
from e2e.commands import helm
from e2e.demo import setup
from e2e.demo.setup import OPERATOR_NAMESPACE
from e2e.disturb import load_while
from e2e.pools import Pool, wait_until

TRAFFIC = Traffic(
    name="lifecycle",
    rate_rps=2.0,
    duration_s=15.0,
    prompt_tokens=Lengths(50, 200),
    output_tokens=Lengths(10, 40),
)


def test_an_uninstalled_operator_leaves_its_pools_serving(pool: Pool, url, images):
    before = pool.all_pods()

    def uninstall():
        helm("uninstall", "tandem", "-n", OPERATOR_NAMESPACE, "--wait")

    aftermath = load_while(uninstall, url=url, model="tiny", traffic=TRAFFIC, after_s=3.0)

    assert aftermath.failed == []
    assert pool.all_pods() == before
    setup.install_operator(images=images)
    generation = pool.read()["metadata"]["generation"]
    pool.patch({"scaling": {"maxStep": 2}})
    wait_until(
        lambda: pool.read()["status"]["observedGeneration"] > generation,
        within_s=60.0,
        what="the newly installed operator acting on an edit",
    )
    assert pool.all_pods() == before
