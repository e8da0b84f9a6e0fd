"""Installing, upgrading and removing the operator leaves pools alone."""

import subprocess
from dataclasses import replace

from benchmarks.load.plan import Lengths, Traffic
from e2e.cluster.images import REGISTRY, chart_values
from e2e.commands import apply, helm, kubectl, kubectl_json
from e2e.demo import setup
from e2e.demo.setup import OPERATOR_NAMESPACE
from e2e.disturb import load_while
from e2e.pools import KIND, LABEL, Pool, wait_until
from e2e.trial import COUNTS
from tests.integration import older_release

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


def as_older(image: str) -> str:
    """Return the image under a tag of yesterday, in the cluster.

    The tag keeps its hash: a fixed one would still name the image of an earlier run there.
    """
    older = image.replace(":", ":older-")
    subprocess.run(["docker", "tag", image, older], check=True, timeout=30)
    setup.cluster("load", older)
    return older


def router_image(pool: Pool) -> str:
    deployment = kubectl_json("get", "deployment", f"{pool.name}-router", "-n", pool.namespace)
    return deployment["spec"]["template"]["spec"]["containers"][0]["image"]


def wait_for_router_of(pool: Pool, image: str) -> None:
    wait_until(
        lambda: router_image(pool) == f"{REGISTRY}/{image}" and pool.is_whole(counts=COUNTS),
        within_s=90.0,
        what=f"a Ready router of {image}",
    )


def test_an_upgrade_from_an_older_release_takes_no_request_with_it(
    pool: Pool, url, images, tmp_path
):
    older_router = as_older(images["ROUTER_IMAGE"])
    older = older_release.build(
        tmp_path,
        images=chart_values(
            images
            | {"OPERATOR_IMAGE": as_older(images["OPERATOR_IMAGE"]), "ROUTER_IMAGE": older_router}
        ),
    )
    place = ("-n", OPERATOR_NAMESPACE, "--reset-values")
    helm("upgrade", "--install", "tandem-crds", str(older.crds), *place)
    helm("upgrade", "--install", "tandem", str(older.operator), *place, "--wait")
    wait_for_router_of(pool, older_router)
    before = {role: pool.pods(role) for role in ("prefill", "decode")}

    aftermath = load_while(
        lambda: setup.install_operator(images=images),
        url=url,
        model="tiny",
        traffic=replace(TRAFFIC, name="upgrade", duration_s=30.0),
        after_s=3.0,
    )

    wait_for_router_of(pool, images["ROUTER_IMAGE"])
    assert [(record.request_id, record.why) for record in aftermath.failed] == []
    assert {role: pool.pods(role) for role in ("prefill", "decode")} == before


def test_a_pool_deleted_while_its_routers_start_is_gone_soon(pool: Pool, manifest):
    brief = Pool(namespace=pool.namespace, name="brief")
    apply({**manifest, "metadata": {**manifest["metadata"], "name": brief.name}})
    wait_until(lambda: has_begun(brief), within_s=60.0, what="a router's process")

    kubectl("delete", KIND, brief.name, "-n", brief.namespace, timeout_s=90.0)

    wait_until(lambda: not brief.children(), within_s=90.0, what="the end of every child")


def has_begun(pool: Pool) -> bool:
    """Return whether the container of one of its routers runs, Ready or not."""
    selector = f"{LABEL}/pool={pool.name},{LABEL}/role=router"
    pods = kubectl_json("get", "pods", "-n", pool.namespace, "-l", selector)["items"]
    return any(
        "running" in each["state"]
        for pod in pods
        for each in pod["status"].get("containerStatuses", ())
    )
