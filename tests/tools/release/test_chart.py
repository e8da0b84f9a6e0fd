"""Released charts: their own values name the images, and they install without any other."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.images import IMAGES
from e2e.cluster.names import ROOT
from e2e.cluster.progress import CannotContinueError
from e2e.cluster.store import sha256
from manifests.generate import helm_program, released_manifest, render_chart
from release.chart import image_values, package, values_file, with_values
from release.images import Published, ReleasedImage
from release.order import Order, Source, project_version

VERSION = project_version()
PLACE = "ghcr.io/your-name"
SOURCE = Source("a" * 40, 1_700_000_000)


def released(order: Order) -> list[ReleasedImage]:
    """Return a made-up digest for each image."""
    return [
        ReleasedImage(
            image,
            f"{image.repository}:x",
            Published(f"{order.registry}/{image.repository}", f"sha256:{number:064x}"),
        )
        for number, image in enumerate(IMAGES, start=1)
    ]


@pytest.fixture(scope="module")
def order() -> Order:
    return Order(VERSION, PLACE)


@pytest.fixture(scope="module")
def chart(order: Order, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chart")
    values = image_values(released(order), order)
    return package("tandem", values, order, SOURCE, work=folder / "work", target=folder)


def images_in(manifest: str) -> set[str]:
    """Return every image of ours that the operator runs, or gives pools."""
    [deployment] = [
        one for one in yaml.safe_load_all(manifest) if one and one["kind"] == "Deployment"
    ]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    given = {v["value"] for v in container["env"] if v["name"].endswith("_IMAGE")}
    return {image for image in (container["image"], *given) if "/vllm/vllm-openai:" not in image}


def test_every_image_has_a_place_of_its_own_in_the_values() -> None:
    values = yaml.safe_load((ROOT / "charts/tandem/values.yaml").read_text())

    assert len({image.value for image in IMAGES}) == len(IMAGES)
    for image in IMAGES:
        place: Any = values
        for key in image.value:
            place = place[key]
        assert place["repository"] == image.repository


def test_a_released_chart_installs_without_values_and_names_the_digests(
    chart: Path, order: Order
) -> None:
    expected = {one.published.reference for one in released(order)}

    assert images_in(render_chart(chart)) == expected
    assert images_in(released_manifest(chart, version=VERSION)) == expected


def test_the_chart_of_a_checkout_installs_with_the_values_of_the_release(
    order: Order, tmp_path: Path
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(values_file(image_values(released(order), order), order))

    rendered = render_chart(ROOT / "charts" / "tandem", "--values", str(values))

    assert images_in(rendered) == {one.published.reference for one in released(order)}


def test_the_chart_of_a_checkout_names_no_image_by_itself() -> None:
    with pytest.raises(SystemExit, match=r"image\.registry is empty"):
        render_chart(ROOT / "charts" / "tandem")


def test_comments_and_every_other_value_stay() -> None:
    text = (ROOT / "charts/tandem/values.yaml").read_text()

    changed = with_values(text, {"engineImages": {"cpu": {"digest": "sha256:1"}}})

    expected = yaml.safe_load(text)
    expected["engineImages"]["cpu"]["digest"] = "sha256:1"
    assert yaml.safe_load(changed) == expected
    assert [line for line in changed.splitlines() if "#" in line] == [
        line for line in text.splitlines() if "#" in line
    ]


def test_a_value_that_the_chart_does_not_have_is_refused() -> None:
    with pytest.raises(CannotContinueError, match=r"has no images\.operator to write into"):
        with_values("image:\n  digest: ''\n", {"images": {"operator": "x"}})


def test_the_same_chart_is_packed_into_the_same_bytes(chart: Path, order: Order, tmp_path) -> None:
    again = package(
        *("tandem", image_values(released(order), order), order, SOURCE),
        work=tmp_path / "work",
        target=tmp_path,
    )

    assert sha256(again) == sha256(chart)
    assert again.stat().st_mtime == SOURCE.epoch_s


def test_helm_finds_nothing_wrong_with_a_released_chart(chart: Path) -> None:
    result = subprocess.run(
        [helm_program(), "lint", "--strict", chart], capture_output=True, text=True, check=False
    )

    assert "0 chart(s) failed" in result.stdout
