"""Images are sent by the layers that the node lacks."""

import hashlib
import os
import stat
import tarfile
from pathlib import Path

import pytest

from e2e.cluster.layers import (
    NotPossibleError,
    best_prefix,
    chain_ids,
    known_prefix,
    layer_folders,
    pack,
)


def test_chains_are_named_as_the_image_format_says() -> None:
    diff_ids = ["sha256:aa", "sha256:bb", "sha256:cc"]

    chains = chain_ids(diff_ids)

    second = "sha256:" + hashlib.sha256(b"sha256:aa sha256:bb").hexdigest()
    third = "sha256:" + hashlib.sha256(f"{second} sha256:cc".encode()).hexdigest()
    assert chains == ["sha256:aa", second, third]


@pytest.mark.parametrize(
    ("held", "count"), [(set(), 0), ({"a"}, 1), ({"a", "c"}, 1), ({"a", "b", "c"}, 3)]
)
def test_only_an_unbroken_stack_from_the_bottom_counts(held: set[str], count: int) -> None:
    assert known_prefix(["a", "b", "c"], held) == count


def test_a_layer_counts_under_dockers_digest_and_under_ours() -> None:
    packed = {"sha256:bb": "sha256:b2"}
    dockers = chain_ids(["sha256:aa", "sha256:bb", "sha256:cc"])
    ours = chain_ids(["sha256:aa", "sha256:b2", "sha256:cc"])
    image = ["sha256:aa", "sha256:bb", "sha256:cc"]

    assert best_prefix(image, packed, set(ours[:2])) == ["sha256:aa", "sha256:b2"]
    assert best_prefix(image, packed, set(dockers)) == image
    assert best_prefix(image, packed, {*ours[:2], *dockers}) == image
    assert best_prefix(image, packed, set()) == []


def test_layers_are_listed_from_the_lowest(tmp_path: Path) -> None:
    for name in ("low", "middle", "top"):
        (tmp_path / name).mkdir()
    data = {"LowerDir": f"{tmp_path}/middle:{tmp_path}/low", "UpperDir": f"{tmp_path}/top"}

    folders = layer_folders({"Name": "overlay2", "Data": data}, count=3)

    assert [one.name for one in folders] == ["low", "middle", "top"]


@pytest.mark.parametrize(
    "driver",
    [
        {},
        {"Name": "vfs", "Data": None},
        {"Name": "overlay2", "Data": {"UpperDir": "/nowhere/at/all"}},
    ],
)
def test_an_engine_whose_layers_are_out_of_reach_is_told(driver: dict) -> None:
    with pytest.raises(NotPossibleError):
        layer_folders(driver, count=1)


def test_a_packed_layer_holds_files_links_and_removals(tmp_path: Path) -> None:
    layer, work = tmp_path / "layer", tmp_path / "work"
    (layer / "opt").mkdir(parents=True)
    work.mkdir()
    (layer / "opt" / "run").write_text("#!/bin/sh\n")
    (layer / "opt" / "run").chmod(0o755)
    (layer / "opt" / "link").symlink_to("run")
    os.mknod(layer / "opt" / "gone", stat.S_IFCHR | 0o600, os.makedev(0, 0))

    blob = pack(layer, work)

    archive = work / blob.digest.removeprefix("sha256:")
    assert blob.size == archive.stat().st_size
    assert "sha256:" + hashlib.sha256(archive.read_bytes()).hexdigest() == blob.digest
    with tarfile.open(archive) as tar:
        assert set(tar.getnames()) == {"opt", "opt/run", "opt/link", "opt/.wh.gone"}
        assert tar.getmember("opt/run").mode == 0o755
        assert tar.getmember("opt/link").linkname == "run"


def test_equal_layers_have_equal_digests(tmp_path: Path) -> None:
    layer = tmp_path / "layer"
    layer.mkdir()
    for name in ("b", "a"):
        (layer / name).write_text(name)
    (tmp_path / "work").mkdir()

    assert pack(layer, tmp_path / "work") == pack(layer, tmp_path / "work")
