import hashlib

import pytest

from e2e.cluster.progress import CannotContinueError
from release import images

TARGET = "registry.example.com/team/tandem/router:0.1.0"


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A stand-in for crane that answers as it does for one registry."""

    def answering(script):
        crane = tmp_path / "crane"
        crane.write_text(f"#!/bin/sh\n{script}\n")
        crane.chmod(0o755)
        monkeypatch.setattr(images, "_crane_program", lambda: crane)

    return answering


@pytest.mark.parametrize("code", ["MANIFEST_UNKNOWN: manifest unknown", "404 Not Found"])
def test_a_tag_that_the_registry_does_not_have_is_free(registry, code):
    registry(f"echo 'Error: GET {TARGET}: {code}' >&2; exit 1")

    assert images.published_manifest(TARGET) is None


def test_a_registry_that_cannot_tell_leaves_no_tag_free(registry):
    registry("echo 'Error: GET: unexpected status code 503 Service Unavailable' >&2; exit 1")

    with pytest.raises(CannotContinueError, match="503"):
        images.published_manifest(TARGET)


def test_a_tag_that_is_taken_has_the_digest_of_its_manifest(registry):
    registry("printf '{\"layers\": []}'")

    found = images.published_manifest(TARGET)

    digest = hashlib.sha256(b'{"layers": []}').hexdigest()
    assert (found.digest, found.manifest) == (f"sha256:{digest}", {"layers": []})
