"""Pod templates that reach beyond a pool, for the operator and for the API server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BadTemplate:
    """One `podTemplate`, its field that the sentence has to name, and its other judge.

    Attributes:
        restricted: whether the Pod Security Standard "restricted" refuses such a pod as well; what
            it lets by takes Secrets or identities.
    """

    name: str
    field: str
    template: Mapping[str, Any]
    restricted: bool = True


def _pod(name: str, field: str, *, restricted: bool = True, **spec: Any) -> BadTemplate:
    return BadTemplate(name, f"spec.{field}", {"spec": spec}, restricted)


def _volume(kind: str, value: Any, *, restricted: bool) -> BadTemplate:
    volumes = [{"name": "theirs", kind: value}]
    return _pod(kind, f"volumes[theirs].{kind}", volumes=volumes, restricted=restricted)


def _engine(field: str, *, restricted: bool = True, **container: Any) -> BadTemplate:
    containers = [{"name": "engine", **container}]
    name = f"engine's {field}"
    return _pod(name, f"containers[engine].{field}", containers=containers, restricted=restricted)


def _context(field: str, value: Any, *, path: str | None = None) -> BadTemplate:
    return _engine(f"securityContext.{path or field}", securityContext={field: value})


def _sidecar(field: str, **container: Any) -> BadTemplate:
    containers = [{"name": "logs", "image": "logs:1", **container}]
    return _pod(f"sidecar's {field}", f"containers[logs].{field}", containers=containers)


_SECRET = {"name": "DATABASE", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/engine"

BAD_TEMPLATES = (
    _pod("the node's network", "hostNetwork", hostNetwork=True),
    _pod("the node's processes", "hostPID", hostPID=True),
    _pod("the node's memory", "hostIPC", hostIPC=True),
    _pod("a node by name", "nodeName", nodeName="n1", restricted=False),
    _pod("an account", "serviceAccountName", serviceAccountName="admin", restricted=False),
    _pod("an account, as once", "serviceAccount", serviceAccount="admin", restricted=False),
    _pod(
        "a token",
        "automountServiceAccountToken",
        automountServiceAccountToken=True,
        restricted=False,
    ),
    _pod("root", "securityContext.runAsUser", securityContext={"runAsUser": 0}),
    _pod("maybe root", "securityContext.runAsNonRoot", securityContext={"runAsNonRoot": False}),
    _pod("no context", "securityContext.runAsNonRoot", securityContext=None),
    _pod(
        "no filter",
        "securityContext.seccompProfile.type",
        securityContext={"seccompProfile": {"type": "Unconfined"}},
    ),
    _pod(
        "filter taken away",
        "securityContext.seccompProfile.type",
        securityContext={"seccompProfile": None},
    ),
    _pod(
        "kernel settings",
        "securityContext.sysctls",
        securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
    ),
    _pod(
        "another SELinux user",
        "securityContext.seLinuxOptions",
        securityContext={"seLinuxOptions": {"user": "system_u"}},
    ),
    _pod(
        "no AppArmor",
        "securityContext.appArmorProfile.type",
        securityContext={"appArmorProfile": {"type": "Unconfined"}},
    ),
    BadTemplate(
        "no AppArmor, as once",
        f"metadata.annotations[{_ANNOTATION}]",
        {"metadata": {"annotations": {_ANNOTATION: "unconfined"}}},
    ),
    _volume("hostPath", {"path": "/"}, restricted=True),
    _volume("nfs", {"server": "files", "path": "/"}, restricted=True),
    _volume("secret", {"secretName": "db"}, restricted=False),
    _volume("csi", {"driver": "secrets-store.csi.k8s.io"}, restricted=False),
    _volume(
        "projected",
        {"sources": [{"serviceAccountToken": {"path": "token"}}]},
        restricted=False,
    ),
    _context("privileged", True),
    _context("allowPrivilegeEscalation", True),
    _context("allowPrivilegeEscalation", None),
    _context("capabilities", {"add": ["SYS_ADMIN"]}, path="capabilities.add"),
    _context("capabilities", {"add": ["IPC_LOCK"]}, path="capabilities.add"),
    _context("capabilities", {"drop": ["NET_RAW"]}, path="capabilities.drop"),
    _context("capabilities", None, path="capabilities.drop"),
    _context("procMount", "Unmasked"),
    _context("runAsNonRoot", False),
    _context("runAsUser", 0),
    _context("seccompProfile", {"type": "Unconfined"}, path="seccompProfile.type"),
    _engine("ports.hostPort", ports=[{"containerPort": 9, "hostPort": 9}]),
    _engine("env[DATABASE]", env=[_SECRET], restricted=False),
    _engine("envFrom.secretRef", envFrom=[{"secretRef": {"name": "db"}}], restricted=False),
    _engine(
        "lifecycle.postStart.httpGet.host",
        lifecycle={"postStart": {"httpGet": {"host": "10.0.0.1", "port": 80}}},
    ),
    _sidecar("securityContext.privileged", securityContext={"privileged": True}),
    _sidecar("securityContext.capabilities.drop", securityContext={"capabilities": None}),
    _sidecar(
        "livenessProbe.tcpSocket.host",
        livenessProbe={"tcpSocket": {"host": "169.254.169.254", "port": 80}},
    ),
    _pod(
        "a privileged start",
        "initContainers[first].securityContext.privileged",
        initContainers=[{"name": "first", "image": "i", "securityContext": {"privileged": True}}],
    ),
    _pod(
        "a Secret at the start",
        "initContainers[first].env[DATABASE]",
        initContainers=[{"name": "first", "image": "i", "env": [_SECRET]}],
        restricted=False,
    ),
)

GOOD_TEMPLATES: Mapping[str, Mapping[str, Any]] = {
    "nothing": {},
    "placement": {
        "spec": {
            "nodeSelector": {"gpu": "h200"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "priorityClassName": "system-cluster-critical",
            "imagePullSecrets": [{"name": "registry"}],
        }
    },
    "volumes": {
        "spec": {
            "volumes": [
                {"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}},
                {"name": "scratch", "emptyDir": {}},
                {"name": "files", "configMap": {"name": "files"}},
            ]
        }
    },
    "sidecar": {"spec": {"containers": [{"name": "logs", "image": "logs:1"}]}},
    "sidecar with settings": {
        "spec": {
            "containers": [
                {
                    "name": "logs",
                    "image": "logs:1",
                    "securityContext": {"readOnlyRootFilesystem": True, "runAsUser": 7},
                    "env": [{"name": "LEVEL", "value": "info"}],
                    "envFrom": [{"configMapRef": {"name": "logs"}}],
                }
            ]
        }
    },
    "user and group": {"spec": {"securityContext": {"runAsUser": 1000, "fsGroup": 1000}}},
    "own account": {"spec": {"serviceAccountName": "tiny-decode"}},
}
