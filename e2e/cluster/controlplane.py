"""A real Kubernetes API on loopback: etcd, kube-apiserver and kube-controller-manager as processes.

    with ControlPlane.started() as api:
        subprocess.run([api.kubectl, "--kubeconfig", api.kubeconfig, "get", "ns"])

RBAC is on; the garbage collector, Deployments, quotas and namespaces act; Leases and watches are
the real ones. There is no node, so pods stay Pending until a test patches their status. The API
server can be frozen, killed and brought back on the same port, for tests of its clients.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import secrets
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.cluster.binaries import ApiBinaries, api_binaries
from e2e.cluster.ports import free_ports
from e2e.cluster.progress import CannotContinueError

# A machine that does much else takes many times as long as an idle one.
_READY_S = 180.0
_STOP_S = 60.0
_ANSWER_S = 60.0
_COMMAND_S = 180.0
_POLL_S = 0.05
ADMIN = "admin"
_STARTING = "storage is (re)initializing"
_ESTABLISHED = 'jsonpath={.status.conditions[?(@.type=="Established")].status}'
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
# SEC 1 ECPrivateKey on P-256: version, 32 bytes of key, the curve's name.
_EC_KEY_HEAD = bytes.fromhex("30310201010420")
_EC_KEY_TAIL = bytes.fromhex("a00a06082a8648ce3d030107")


@dataclass(slots=True)
class ControlPlane:
    """Three running processes, and the keys to them."""

    folder: Path
    binaries: ApiBinaries
    port: int
    tokens: dict[str, str]
    _etcd_port: int
    gates: str = ""
    _controllers: tuple[str, ...] = ()
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @classmethod
    @contextlib.contextmanager
    def started(
        cls,
        *,
        users: Sequence[str] = ("alice", "bob"),
        gates: str = "",
        controllers: Sequence[str] = (),
    ) -> Iterator[ControlPlane]:
        """Start a control plane and end it with the block.

        Args:
            users: names that can log in (`user_kubeconfig`) and may do nothing before a binding.
            gates: feature gates, such as `ImageVolume=true`.
            controllers: further flags of the controller manager.
        """
        binaries = api_binaries()
        folder = Path(tempfile.mkdtemp(prefix="tandem-api-"))
        api_port, etcd_port = free_ports(2)
        plane = cls(
            folder=folder,
            binaries=binaries,
            port=api_port,
            tokens={user: secrets.token_hex(16) for user in (ADMIN, *users)},
            _etcd_port=etcd_port,
            gates=gates,
            _controllers=tuple(controllers),
        )
        try:
            plane._start()
            yield plane
        finally:
            plane._stop()
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """Return the address of the API server."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def kubectl(self) -> Path:
        """Return a kubectl of the API server's own version."""
        return self.binaries.kubectl

    @property
    def kubeconfig(self) -> Path:
        """Return the kubeconfig of a cluster administrator."""
        return self.user_kubeconfig(ADMIN)

    @property
    def certificate_authority(self) -> Path:
        """Return the certificate that signs the API server's own."""
        return self.folder / "certs" / "apiserver.crt"

    def user_kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of one of the users named at the start."""
        return self._write_kubeconfig(user, self.tokens[user])

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Return the kubeconfig with a fresh one-hour token of an existing ServiceAccount."""
        token = self.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        )["status"]["token"]
        return self._write_kubeconfig(f"{namespace}-{name}", token)

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send one request as administrator; a refusal raises with the server's message.

        After a start the server refuses a custom resource with 429 until its storage is ready. An
        eviction that a disruption budget forbids has the same status, and is not tried again.
        """
        deadline = time.monotonic() + _READY_S
        while True:
            status, text = self._exchange(method, path, json.dumps(body) if body else None)
            is_starting = status == http.client.TOO_MANY_REQUESTS and _STARTING in text
            if not is_starting or time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {text[:500]}")
        return dict(json.loads(text)) if text.startswith("{") else {"text": text}

    def run_kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator and return what it prints."""
        result = subprocess.run(
            [self.kubectl, "--kubeconfig", self.kubeconfig, *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_S,
        )
        if result.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(words)}: {result.stderr.strip()}")
        return result.stdout

    def install_definition(self, file: Path) -> None:
        """Apply a CustomResourceDefinition and wait until its objects are served."""
        self.run_kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
        deadline = time.monotonic() + _READY_S
        # `kubectl wait` fails on a definition that has no conditions yet.
        while self.run_kubectl("get", "-f", str(file), "-o", _ESTABLISHED) != "True":
            if time.monotonic() > deadline:
                raise CannotContinueError(f"{file.name} is not served after {_READY_S:g} s")
            time.sleep(_POLL_S)

    @contextlib.contextmanager
    def api_server_frozen(self) -> Iterator[None]:
        """Stop the API server in mid-air for the block: connections stand, nothing answers."""
        process = self._processes["kube-apiserver"]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def kill_api_server(self) -> None:
        """End the API server with SIGKILL: connections are refused until it is started again."""
        _end(self._processes.pop("kube-apiserver"), with_signal=signal.SIGKILL)

    def start_api_server(self) -> None:
        """Start the API server again on the same port and data, and wait until it is ready."""
        self._spawn("kube-apiserver", self.binaries.kube_apiserver, self._api_server_flags())
        self._wait_ready("kube-apiserver", self._is_api_ready)

    def log(self, process: str) -> str:
        """Return what `etcd`, `kube-apiserver` or `kube-controller-manager` has logged."""
        return (self.folder / f"{process}.log").read_text(errors="replace")

    def _start(self) -> None:
        (self.folder / "tokens.csv").write_text(
            "".join(
                f"{token},{user},{user}{',system:masters' if user == ADMIN else ''}\n"
                for user, token in self.tokens.items()
            )
        )
        (self.folder / "service-accounts.pem").write_text(_ec_key_pem())
        self._spawn("etcd", self.binaries.etcd, self._etcd_flags())
        self.start_api_server()
        self._spawn(
            "kube-controller-manager",
            self.binaries.kube_controller_manager,
            self._controller_manager_flags(),
        )
        self._wait_ready("kube-controller-manager", self._has_default_service_account)

    def _stop(self) -> None:
        for name in ("kube-controller-manager", "kube-apiserver", "etcd"):
            if process := self._processes.pop(name, None):
                process.send_signal(signal.SIGCONT)
                # The data goes away with the directory: nothing is worth a slow, clean end.
                _end(process, with_signal=signal.SIGKILL)

    def _etcd_flags(self) -> list[str]:
        client = f"http://127.0.0.1:{self._etcd_port}"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _api_server_flags(self) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            # Its own address is a loopback one, which no Endpoints object may hold.
            "--endpoint-reconciler-type=none",
            f"--cert-dir={self.folder / 'certs'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'service-accounts.pem'}",
            f"--service-account-signing-key-file={self.folder / 'service-accounts.pem'}",
            "--allow-privileged=true",
            f"--feature-gates={self.gates}",
        ]

    def _controller_manager_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            "--secure-port=0",
            "--leader-elect=false",
            f"--root-ca-file={self.certificate_authority}",
            f"--service-account-private-key-file={self.folder / 'service-accounts.pem'}",
            *self._controllers,
        ]

    def _spawn(self, name: str, program: Path, flags: list[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*_dying_with_parent(), str(program), *flags],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait_ready(self, name: str, is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline:
            code = self._processes[name].poll()
            if code is not None:
                raise CannotContinueError(f"{name} ended with {code}:\n{self.log(name)[-3000:]}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                if is_ready():
                    return
            time.sleep(_POLL_S)
        raise CannotContinueError(
            f"{name} was not ready within {_READY_S} s:\n{self.log(name)[-3000:]}"
        )

    def _is_api_ready(self) -> bool:
        return self._exchange("GET", "/readyz", None)[0] == http.client.OK

    def _has_default_service_account(self) -> bool:
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        return self._exchange("GET", path, None)[0] == http.client.OK

    def _exchange(self, method: str, path: str, body: str | None) -> tuple[int, str]:
        trust = ssl.create_default_context(cafile=str(self.certificate_authority))
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=_ANSWER_S, context=trust
        )
        with contextlib.closing(connection):
            headers = {
                "Authorization": f"Bearer {self.tokens[ADMIN]}",
                "Content-Type": "application/json",
            }
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def _write_kubeconfig(self, user: str, token: str) -> Path:
        authority = base64.b64encode(self.certificate_authority.read_bytes()).decode()
        path = self.folder / f"{user}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority-data": authority}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        # Renamed into place: an operator that reads it just now must not find it empty.
        fresh = path.with_suffix(f".{secrets.token_hex(4)}")
        fresh.write_text(json.dumps(config, indent=1))  # JSON is YAML, and needs no library.
        return fresh.replace(path)


def _ec_key_pem() -> str:
    """Return a new P-256 private key without its public half, which Go works out."""
    scalar = 1 + secrets.randbelow(_P256_ORDER - 1)
    content = base64.b64encode(_EC_KEY_HEAD + scalar.to_bytes(32, "big") + _EC_KEY_TAIL).decode()
    lines = "\n".join(content[at : at + 64] for at in range(0, len(content), 64))
    kind = "EC PRIVATE KEY"
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n"


def _dying_with_parent() -> list[str]:
    # A killed test run must not leave API servers behind.
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


def _end(process: subprocess.Popen[bytes], *, with_signal: signal.Signals) -> None:
    process.send_signal(with_signal)
    process.wait(timeout=_STOP_S)
