"""What a newcomer meets first is said on the pool itself."""

import copy

from e2e.commands import apply, kubectl
from e2e.pools import KIND, Pool, wait_until


def test_an_image_that_cannot_be_pulled_is_named_on_the_pool_within_30_seconds(operator, manifest):
    broken = copy.deepcopy(manifest)
    broken["metadata"]["name"] = "broken"
    broken["spec"]["engine"]["image"] = "127.0.0.1:9/no-such-engine:none"
    for role in ("prefill", "decode"):
        broken["spec"][role].update(minReplicas=1, maxReplicas=1)
    pool = Pool(namespace=broken["metadata"]["namespace"], name="broken")

    apply(broken)

    def told():
        ready = pool.condition("Ready")
        said = ready.get("message", "")
        return ready if "Pull" in said and "no-such-engine" in said else None

    ready = wait_until(told, within_s=30.0, what="the image's name on the pool's Ready condition")
    assert ready["status"] == "False"
    kubectl("delete", KIND, "broken", "-n", pool.namespace, "--wait=false")
