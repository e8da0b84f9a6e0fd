"""The contents of an image, and the SBOM that lists them."""

import io
import json
import re
import tarfile
from pathlib import Path

import pytest
from spdx_tools.spdx.model import SpdxNoAssertion
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from e2e.cluster.names import ROOT
from release.contents import Component, installed, interpreter
from release.images import Published
from release.order import Source
from release.sbom import document_of, write_sbom

IMAGE = Published("ghcr.io/you/tandem/operator", "sha256:" + "1" * 64)
SOURCE = Source("a" * 40, 1_700_000_000)
STATUS = """Package: libc6
Status: install ok installed
Version: 2.36-9+deb12u7
Architecture: amd64
Description: text
 that goes on

Package: gone
Status: deinstall ok config-files
Version: 1
"""
FILES = {
    "opt/tandem/lib/python3.11/site-packages/PyYAML-6.0.3.dist-info/METADATA": (
        "Metadata-Version: 2.4\nName: PyYAML\nVersion: 6.0.3\nLicense: MIT\n\nVersion: 0\n"
    ),
    "opt/code/tandem_inference-0.1.0.dist-info/METADATA": (
        "Name: tandem-inference\nVersion: 0.1.0\nLicense-Expression: Apache-2.0\n"
    ),
    "var/lib/dpkg/status": STATUS,
    "usr/share/doc/METADATA": "Name: not-a-package\nVersion: 1\n",
    "opt/broken-1.dist-info/METADATA": "no metadata at all",
}


def tar_of(files: dict[str, str]) -> tarfile.TarFile:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    buffer.seek(0)
    return tarfile.open(fileobj=buffer, mode="r|")


@pytest.fixture
def components() -> list[Component]:
    return sorted({*installed(tar_of(FILES)), *interpreter(["A=b", "PYTHON_VERSION=3.11.16"])})


def test_installed_packages_are_read_from_their_own_records(components) -> None:
    assert [one.purl for one in components] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u7",
        "pkg:generic/python@3.11.16",
        "pkg:pypi/pyyaml@6.0.3",
        "pkg:pypi/tandem-inference@0.1.0",
    ]


def test_an_image_of_files_alone_has_no_packages() -> None:
    assert [*installed(tar_of({"opt/tool": "x"}))] == []


def test_the_sbom_is_valid_and_contains_every_package(components, tmp_path: Path) -> None:
    target = tmp_path / "sbom" / "operator.spdx.json"

    write_sbom(target, IMAGE, components, version="0.1.0", source=SOURCE)

    document = parse_file(str(target))
    assert validate_full_spdx_document(document) == []
    written = json.loads(target.read_text())
    assert written["spdxVersion"] == "SPDX-2.3"
    assert written["packages"][0]["packageFileName"] == IMAGE.reference
    contained = [r for r in written["relationships"] if r["relationshipType"] == "CONTAINS"]
    assert len(contained) == len(components)


def test_the_launcher_brings_debians_record_of_its_static_busybox() -> None:
    recipe = (ROOT / "images" / "launcher" / "Dockerfile").read_text()
    [record] = re.findall(r"dpkg-query --status busybox-static > /image/(\S+)", recipe)
    status = "Package: busybox-static\nStatus: install ok installed\nVersion: 1:1.35.0-4+b7\n"

    found = [one.purl for one in installed(tar_of({record: status}))]

    assert found == ["pkg:deb/debian/busybox-static@1:1.35.0-4%2Bb7"]


def test_an_image_as_a_whole_is_under_no_one_licence(components) -> None:
    document = document_of(IMAGE, components, version="0.1.0", source=SOURCE)

    assert isinstance(document.packages[0].license_declared, SpdxNoAssertion)


def test_the_sbom_of_the_same_image_is_the_same(components) -> None:
    first, second = (
        document_of(IMAGE, components, version="0.1.0", source=SOURCE) for _ in range(2)
    )

    assert first == second


@pytest.mark.parametrize(
    "text", ["", "BSD License", "Copyright (c) 2020-2025, A.\n  All rights.", "(((", "MIT " * 500]
)
def test_a_licence_that_spdx_does_not_know_is_not_asserted(text: str) -> None:
    component = Component("pypi", "a", "1", text)

    document = document_of(IMAGE, [component], version="0.1.0", source=SOURCE)

    assert isinstance(document.packages[1].license_declared, SpdxNoAssertion)
    assert validate_full_spdx_document(document) == []
