"""A real Prometheus in the cluster, published or made here, on loopback port 30090."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from e2e.cluster import cluster, docker, gobuild, images, names
from e2e.cluster.progress import answers, run, say, step

_NAMESPACE = "monitoring"
_REPOSITORY = "tandem/prometheus"
_RECIPE = """FROM scratch
COPY prometheus /bin/prometheus
USER 65534:65534
ENTRYPOINT ["/bin/prometheus"]
"""


def install() -> None:
    """Install Prometheus, or bring it up to date, and wait until it is ready."""
    image = _image()
    images.load([image])
    manifest = (names.HERE / "prometheus.yaml").read_text()
    with step("prometheus", "installing"):
        cluster.apply(manifest.replace("image: IMAGE", f"image: {image}"))
        cluster.await_rollout("prometheus", namespace=_NAMESPACE)
    say("prometheus: http://127.0.0.1:30090")


def _image() -> str:
    if docker.has_image(names.STOCK_PROMETHEUS_IMAGE):
        return names.STOCK_PROMETHEUS_IMAGE
    if not gobuild.is_built(gobuild.PROMETHEUS) and answers(
        ["docker", "pull", "--quiet", names.STOCK_PROMETHEUS_IMAGE], timeout_s=60
    ):
        return names.STOCK_PROMETHEUS_IMAGE
    return _made_here()


def _made_here() -> str:
    built = gobuild.build(gobuild.PROMETHEUS)
    tag = f"{_REPOSITORY}:{built.name.rpartition('-')[2]}"
    if not docker.has_image(tag):
        with step(tag, "building"), tempfile.TemporaryDirectory(prefix="tandem-") as context:
            shutil.copy2(built / "prometheus", context)
            (Path(context) / "Dockerfile").write_text(_RECIPE)
            run(["docker", "build", "--label", names.OWNED, "-t", tag, context])
    return tag
