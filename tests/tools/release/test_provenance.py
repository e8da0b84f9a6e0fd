"""The origin of a release, its checksums, and its signer."""

import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.cluster.store import sha256
from release.files import files_in, write_sums
from release.images import Published
from release.order import Order, Source
from release.provenance import statement
from release.signature import sign, unsigned_because

ORDER = Order("0.1.0", "ghcr.io/you", push=True)
SOURCE = Source("c" * 40, 1_700_000_000)
IMAGE = Published("ghcr.io/you/tandem/operator", "sha256:" + "1" * 64)
BASE = Published("python:3.11-slim-bookworm", "sha256:" + "2" * 64)


def said(files: dict[str, Path], environment: dict[str, str] | None = None) -> dict:
    return statement(
        *(ORDER, SOURCE),
        published=[IMAGE],
        files=files,
        base=BASE,
        environment=environment or {},
    )


def test_provenance_names_commit_images_files_and_base(tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    wheel.write_text("wheel")

    found = said({"a.whl": wheel})

    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicateType"] == "https://slsa.dev/provenance/v1"
    assert found["subject"] == [
        {"name": IMAGE.name, "digest": {"sha256": "1" * 64}},
        {"name": "a.whl", "digest": {"sha256": sha256(wheel)}},
    ]
    commit, base, *locks = found["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert commit["digest"] == {"gitCommit": SOURCE.commit}
    assert base == {"uri": BASE.purl, "digest": {"sha256": "2" * 64}}
    assert [one["name"] for one in locks] == ["uv.lock", "engine/uv.lock", "images/uv.txt"]


def test_a_tree_with_changes_is_said_to_be_of_no_commit() -> None:
    changed = replace(SOURCE, changed=True)

    predicate = statement(
        *(ORDER, changed), published=[IMAGE], files={}, base=BASE, environment={}
    )["predicate"]

    tree = predicate["buildDefinition"]["resolvedDependencies"][0]
    assert "digest" not in tree
    assert tree["annotations"] == {"revision": f"{SOURCE.commit}-dirty"}


@pytest.mark.parametrize(
    ("name", "purl"),
    [
        (
            "python:3.11-slim",
            "pkg:oci/python@sha256%3A12?repository_url=docker.io/library/python&tag=3.11-slim",
        ),
        (
            "localhost:5001/tandem/router",
            "pkg:oci/router@sha256%3A12?repository_url=localhost:5001/tandem/router",
        ),
        ("tandem/python:0ff1ce", "pkg:oci/python@sha256%3A12?tag=0ff1ce"),
    ],
    ids=["of Docker Hub", "of a registry", "made here"],
)
def test_a_package_url_names_the_registry_that_has_the_image(name: str, purl: str) -> None:
    assert Published(name, "sha256:12").purl == purl


def test_a_workflow_that_builds_is_named_with_its_repository() -> None:
    workflow = {
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "you/tandem",
        "GITHUB_WORKFLOW_REF": "you/tandem/.github/workflows/release.yaml@refs/tags/v0.1.0",
    }

    predicate = said({}, workflow)["predicate"]

    builder = predicate["runDetails"]["builder"]["id"]
    assert builder == f"https://github.com/{workflow['GITHUB_WORKFLOW_REF']}"
    source = predicate["buildDefinition"]["resolvedDependencies"][0]["uri"]
    assert source == "git+https://github.com/you/tandem"
    own = said({})["predicate"]["runDetails"]["builder"]["id"]
    assert own.endswith("#own-machine")


def test_checksums_are_as_sha256sum_reads_them(tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    for name in ("values.yaml", "charts/tandem.tgz"):
        (tmp_path / name).write_text(name)

    write_sums(tmp_path, files_in(tmp_path))

    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert checked.stdout == "charts/tandem.tgz: OK\nvalues.yaml: OK\n"


@pytest.mark.parametrize(
    ("cosign", "key", "reason"),
    [
        (None, None, "COSIGN_KEY is not set"),
        ("/bin/cosign", None, "COSIGN_KEY is not set"),
        (None, "cosign.key", "cosign is not on the PATH"),
    ],
)
def test_what_is_not_signed_says_why(cosign: str | None, key: str | None, reason: str) -> None:
    assert reason in (unsigned_because(cosign, key) or "")


def test_checksums_and_what_was_pushed_are_signed_with_the_key(tmp_path: Path) -> None:
    cosign, log = tmp_path / "cosign", tmp_path / "log"
    cosign.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    cosign.chmod(cosign.stat().st_mode | stat.S_IXUSR)
    sums = tmp_path / "SHA256SUMS"

    sign(
        ORDER,
        published=[IMAGE],
        sums=sums,
        environment={"PATH": str(tmp_path), "COSIGN_KEY": "cosign.key"},
    )

    assert log.read_text().splitlines() == [
        f"sign-blob --key cosign.key --yes --output-signature {sums}.sig {sums}",
        f"sign --key cosign.key --yes {IMAGE.reference}",
    ]
