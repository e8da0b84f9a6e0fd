"""The steps of a release, in order. What is in build/release/VERSION is whole, or not there."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import docker
from e2e.cluster.images import IMAGES
from e2e.cluster.names import BUILD, ROOT
from e2e.cluster.progress import run, say, step
from e2e.cluster.store import locked
from manifests.generate import released_manifest
from release import chart
from release.contents import components_of
from release.files import files_in, write_sums
from release.images import Published, ReleasedImage, base_digest, release_image
from release.krew import plugin
from release.notes import notes_of
from release.order import CHARTS, Order, Source, check_order, source_of
from release.provenance import statement
from release.sbom import write_sbom
from release.signature import sign

RELEASES = BUILD / "release"
_CHANGELOG = ROOT / "CHANGELOG.md"


def release(order: Order, *, into: Path = RELEASES) -> Path:
    """Make a release and return its folder; the same order again makes the same."""
    check_order(order)
    notes = notes_of(_CHANGELOG.read_text(), order.version, trial=order.trial)
    source = source_of(trial=order.trial)
    docker.ensure_engine()
    into.mkdir(parents=True, exist_ok=True)
    target = into / order.version
    with locked("release"), tempfile.TemporaryDirectory(prefix=".new-", dir=into) as new:
        folder, work = Path(new) / order.version, Path(new) / "work"
        folder.mkdir()
        work.mkdir()
        (folder / "RELEASE_NOTES.md").write_text(notes)
        images = [release_image(one, order, source, work) for one in IMAGES]
        published = [*(one.published for one in images)]
        published += _charts(images, order, source, folder=folder, work=work)
        wheel = _wheel(folder, source)
        with step("plugin", "packing kubectl tandem for each platform"):
            plugin(order, source, wheel=wheel, folder=folder, work=work)
        _sboms(images, order, source, folder)
        _write_json(
            folder / "provenance.intoto.json",
            statement(
                order,
                source,
                published=published,
                files={str(path.relative_to(folder)): path for path in files_in(folder)},
                base=base_digest(),
            ),
        )
        sign(order, published=published, sums=write_sums(folder, files_in(folder)))
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)
    say(f"release {order.version}: {target}")
    return target


def _charts(
    images: Sequence[ReleasedImage], order: Order, source: Source, *, folder: Path, work: Path
) -> list[Published]:
    """Both charts, the manifest and the values with the same digests; returns what is pushed."""
    values = chart.image_values(images, order)
    (folder / "values.yaml").write_text(chart.values_file(values, order))
    with step("charts", "packing and pushing" if order.push else "packing"):
        packed = {
            name: chart.package(
                name,
                values if name == "tandem" else {},
                order,
                source,
                work=work,
                target=folder,
            )
            for name in CHARTS
        }
        manifest = released_manifest(packed["tandem"], version=order.version)
        (folder / "install.yaml").write_text(manifest)
        if not order.push:
            return []
        return [chart.push(archive, name, order) for name, archive in packed.items()]


def _wheel(folder: Path, source: Source) -> Path:
    """The operator, the router, the launcher and the command line as one wheel."""
    with step("wheel", "building"):
        run(
            [
                *(sys.executable, "-m", "hatchling", "build"),
                *("--target", "wheel", "--directory", folder),
            ],
            cwd=ROOT,
            env=os.environ | {"SOURCE_DATE_EPOCH": str(source.epoch_s)},
        )
    [made] = folder.glob("*.whl")
    return made


def _sboms(images: Sequence[ReleasedImage], order: Order, source: Source, folder: Path) -> None:
    for one in images:
        title = one.image.repository.rpartition("/")[2]
        with step(f"SBOM of {title}", "reading the packages of the image"):
            write_sbom(
                folder / f"{title}.spdx.json",
                one.published,
                components_of(one.local_tag),
                version=order.version,
                source=source,
            )


def _write_json(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n")
