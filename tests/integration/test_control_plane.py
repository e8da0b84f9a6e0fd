"""The control plane that the other integration tests stand on acts like a real one."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.cluster.controlplane import ControlPlane


def test_a_user_without_a_binding_is_refused(control_plane: ControlPlane, namespace: str) -> None:
    alice = str(control_plane.user_kubeconfig("alice"))

    with pytest.raises(RuntimeError, match='User "alice" cannot list resource "pods"'):
        control_plane.run_kubectl("--kubeconfig", alice, "get", "pods", "-n", namespace)


def test_the_kubeconfig_is_whole_whenever_a_process_reads_it(
    control_plane: ControlPlane,
) -> None:
    path, done = control_plane.kubeconfig, threading.Event()

    def ask() -> None:
        while not done.is_set():
            assert control_plane.kubeconfig == path

    with ThreadPoolExecutor(max_workers=1) as others:
        asking = others.submit(ask)
        try:
            seen = {path.read_text() for _ in range(2000)}
        finally:
            done.set()
        asking.result()

    assert len(seen) == 1


def test_a_service_account_logs_in_with_a_minted_token(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.run_kubectl("create", "serviceaccount", "worker", "-n", namespace)

    config = str(control_plane.service_account_kubeconfig(namespace, "worker"))
    answer = control_plane.run_kubectl("--kubeconfig", config, "auth", "whoami")

    assert f"system:serviceaccount:{namespace}:worker" in answer


def test_controllers_make_pods_for_a_deployment(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.run_kubectl(
        "create", "deployment", "web", "--image=x", "--replicas=2", "-n", namespace
    )

    control_plane.run_kubectl(
        *("wait", "deployment/web", "-n", namespace, "--timeout=150s"),
        "--for=jsonpath={.status.replicas}=2",
    )


def test_data_outlives_a_killed_api_server(fresh_control_plane: ControlPlane) -> None:
    fresh_control_plane.run_kubectl("create", "configmap", "kept", "--from-literal=a=1")

    fresh_control_plane.kill_api_server()
    with pytest.raises(RuntimeError, match="refused"):
        fresh_control_plane.run_kubectl("get", "configmap", "kept")
    fresh_control_plane.start_api_server()

    assert "kept" in fresh_control_plane.run_kubectl("get", "configmap", "kept")


def test_a_frozen_api_server_answers_again_after_it_thaws(
    fresh_control_plane: ControlPlane,
) -> None:
    with (
        fresh_control_plane.api_server_frozen(),
        pytest.raises(RuntimeError, match=r"deadline|[Tt]imeout"),
    ):
        fresh_control_plane.run_kubectl("get", "namespaces", "--request-timeout=1s")

    assert "default" in fresh_control_plane.run_kubectl("get", "namespaces")
