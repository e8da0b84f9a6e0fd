"""A real Kubernetes API for the whole session, and a namespace of its own for each test."""

import re
import secrets
import signal
from collections.abc import Iterator

import pytest

from e2e.cluster.controlplane import ControlPlane
from tests.integration.operator_process import eventually


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd, kube-apiserver and kube-controller-manager on loopback, shared by the session."""
    with ControlPlane.started() as plane:
        yield plane


@pytest.fixture
def fresh_control_plane() -> Iterator[ControlPlane]:
    """A control plane of the test's own, for tests that freeze or kill its parts."""
    with ControlPlane.started() as plane:
        yield plane


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """Name of a new namespace that goes away after the test."""
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    name = f"{stem}-{secrets.token_hex(3)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    control_plane.request("POST", "/api/v1/namespaces", body)
    # Without it, which a controller makes, a pod of the namespace is refused.
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    eventually(lambda: control_plane.request("GET", account))
    yield name
    control_plane.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Tests in a shell's background ignore interrupts; processes that they start would too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
