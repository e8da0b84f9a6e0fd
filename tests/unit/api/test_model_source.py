"""A source in one line is the typed form that it is short for, or stands for itself."""

import pytest

from tandem_operator.api import parse_pool
from tests.unit.api.bad_pools import GOOD, merged

DIGEST = "sha256:" + "a" * 64


def source_of(**given):
    patch = {"spec": {"model": {"source": {"image": None, **given}}}}
    return parse_pool(merged(GOOD, patch), strict=True).spec.model.source


@pytest.mark.parametrize(
    ("uri", "typed"),
    [
        ("hf://acme/llama", {"huggingFace": {"repo": "acme/llama"}}),
        ("hf://gpt2@main", {"huggingFace": {"repo": "gpt2"}}),
        ("hf://a/b@refs/pr/1", {"huggingFace": {"repo": "a/b", "revision": "refs/pr/1"}}),
        ("pvc://weights", {"persistentVolumeClaim": {"claimName": "weights"}}),
        (
            "pvc://weights/llama/8b",
            {"persistentVolumeClaim": {"claimName": "weights", "path": "/llama/8b"}},
        ),
        ("file:///models/tiny", {"image": {"path": "/models/tiny"}}),
    ],
)
def test_a_uri_is_its_typed_form(uri, typed):
    assert source_of(uri=uri) == source_of(**typed)


def test_credentials_of_a_hub_are_its_token():
    source = source_of(uri="hf://acme/llama", credentialsSecretRef={"name": "hub"})

    assert source.hugging_face.token_secret_ref.name == "hub"
    assert source.hugging_face.token_secret_ref.key == "token"


@pytest.mark.parametrize(
    ("uri", "storage", "image"),
    [
        ("s3://models/llama/8b/", "s3://models/llama/8b", None),
        ("gs://models.acme.com/llama=1+2", "gs://models.acme.com/llama=1+2", None),
        ("oci://ghcr.io/acme/llama:8b", None, "ghcr.io/acme/llama:8b"),
        ("oci://localhost:5000/llama", None, "localhost:5000/llama"),
        (f"oci://ghcr.io/acme/llama@{DIGEST}", None, f"ghcr.io/acme/llama@{DIGEST}"),
    ],
)
def test_a_uri_that_no_typed_form_says_stands_for_itself(uri, storage, image):
    source = source_of(uri=uri)

    assert (source.object_storage, source.oci_image) == (storage, image)
    assert source.is_remote == (storage is not None)
