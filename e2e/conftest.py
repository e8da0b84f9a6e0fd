"""The operator installed by Helm, and one pool with real vLLM in a namespace of the tests' own.

The tests run in the order of their files' names: `test_at_rest` wants a pool that has not seen a
request yet, `test_teardown` ends it.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.commands import apply, kubectl
from e2e.demo import setup
from e2e.faults.on_kind import Ground, reference
from e2e.pools import Pool
from e2e.trial import COUNTS, NAME, NAMESPACE, open_door, trial_manifest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test the time that a cold pod start takes."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def images() -> dict[str, str]:
    """The images that `make images` built."""
    return setup.built_images()


@pytest.fixture(scope="session")
def operator(images: dict[str, str]) -> None:
    """The operator, installed as a user would install it."""
    setup.install_operator(images=images)


@pytest.fixture(scope="session")
def namespace() -> Iterator[str]:
    """A fresh namespace that only lets unprivileged pods in."""
    setup.remove_pool(namespace=NAMESPACE)
    setup.make_namespace(NAMESPACE)
    yield NAMESPACE
    if "TANDEM_E2E_KEEP" not in os.environ:
        kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture(scope="session")
def manifest(namespace: str, images: dict[str, str]) -> dict[str, Any]:
    """The pool as it is applied."""
    return trial_manifest(images=images, namespace=namespace)


@pytest.fixture(scope="session")
def pool(operator: None, manifest: dict[str, Any]) -> Pool:
    """The pool, Ready."""
    place = Pool(namespace=manifest["metadata"]["namespace"], name=NAME)
    apply(manifest)
    place.wait_ready()
    return place


@pytest.fixture(scope="session")
def url(pool: Pool) -> str:
    """The pool's router, reached over a port of the node."""
    return open_door(pool)


@pytest.fixture(scope="session")
def ground(pool: Pool, url: str, images: dict[str, str]) -> Ground:
    """The pool with its undisturbed answers, for disturbances to compare with."""
    return Ground(pool, url, reference(url, images), COUNTS)
