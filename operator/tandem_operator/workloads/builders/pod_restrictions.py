"""Refuse pod templates of pools that ask for nodes, other identities or foreign Secrets.

This covers everything that the Pod Security Standard "restricted" of Kubernetes 1.34 refuses. It
also covers reads of Secrets, and identities that do not belong to the pool. The check looks at the
resulting pod. So a default that a template removes with null counts as well. A template of any
shape is accepted as input.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tandem_operator.workloads.objection import Objection

SWITCH = "pools.allowAnyPodTemplate"
"""The chart's value that lifts these restrictions."""

CONTAINED: Mapping[str, Any] = {
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
}
"""Defaults of every container of a pod, the user's containers included."""
CONFINED: Mapping[str, Any] = {
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
}
"""Defaults of Tandem's own containers."""

VOLUME_TYPES = ("configMap", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim")
SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
SELINUX_TYPES = ("container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP = ("RuntimeDefault", "Localhost")
_CONTAINERS = ("containers", "initContainers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Identities that belong to the pool itself.

    Attributes:
        service_account: the component's own account.
        secret: name and key of the Secret with the access token of the Hub, if there is one.
    """

    service_account: str
    secret: tuple[str, str] | None = None


def breaches(template: Mapping[str, Any], *, path: str, own: Own) -> Iterator[Objection]:
    """Yield a sentence for each field of a pod template that is not allowed.

    Args:
        template: Tandem's defaults with the user's template laid over them.
        path: path of that template in the pool.
        own: identities that the pool may use.
    """
    pod = _mapping(template.get("spec"))
    found = [
        *_pod_breaches(pod, own),
        *_annotation_breaches(_mapping(template.get("metadata"))),
        *_volume_breaches(pod.get("volumes")),
        *_context_breaches(pod.get("securityContext"), "spec.securityContext", _POD_CONTEXT),
    ]
    for field in _CONTAINERS:
        for index, container in enumerate(_items(pod.get(field))):
            where = f"spec.{field}[{container.get('name', index)}]"
            found += _container_breaches(container, where, own)
    for field, why, instead in found:
        yield Objection(
            f"{path}.{field}",
            f"{path}.{field} is refused, since {why}; {instead}, or install Tandem with"
            f" {SWITCH}: true",
        )


_Breach = tuple[str, str, str]
"""The field, why it is refused, and what to do instead."""
LEAVE_OUT = "leave it out"


def _pod_breaches(pod: Mapping[str, Any], own: Own) -> Iterator[_Breach]:
    for field, what in _HOST.items():
        if pod.get(field):
            yield f"spec.{field}", f"the pod would share the node's {what}", LEAVE_OUT
    if pod.get("nodeName") is not None:
        yield "spec.nodeName", "it bypasses the scheduler", "use nodeSelector"
    for field in ("serviceAccountName", "serviceAccount"):
        if pod.get(field) not in (None, own.service_account):
            yield f"spec.{field}", "the pod would use another identity", LEAVE_OUT
    if pod.get("automountServiceAccountToken") not in (None, False):
        why = "engines need no API server token"
        yield "spec.automountServiceAccountToken", why, LEAVE_OUT
    if pod.get("ephemeralContainers"):
        yield "spec.ephemeralContainers", "ephemeral containers are for debugging only", LEAVE_OUT


def _annotation_breaches(metadata: Mapping[str, Any]) -> Iterator[_Breach]:
    for name, value in _mapping(metadata.get("annotations")).items():
        allowed = value == "runtime/default" or str(value).startswith("localhost/")
        if str(name).startswith(_APPARMOR) and not allowed:
            yield f"metadata.annotations[{name}]", "it turns AppArmor off", LEAVE_OUT


def _volume_breaches(volumes: Any) -> Iterator[_Breach]:
    for index, volume in enumerate(_items(volumes)):
        kinds = [kind for kind, value in volume.items() if kind != "name" and value is not None]
        for kind in kinds:
            if kind not in VOLUME_TYPES:
                where = f"spec.volumes[{volume.get('name', index)}].{kind}"
                why = "it gives access to objects outside the pool"
                yield where, why, "use " + ", ".join(VOLUME_TYPES[:-1]) + f" or {VOLUME_TYPES[-1]}"


def _container_breaches(container: Mapping[str, Any], path: str, own: Own) -> Iterator[_Breach]:
    context = container.get("securityContext")
    yield from _context_breaches(context, f"{path}.securityContext", _CONTAINER_CONTEXT)
    for port in _items(container.get("ports")):
        if port.get("hostPort"):
            yield f"{path}.ports.hostPort", "it opens a port on the node", "use a Service"
    for entry in _items(container.get("env")):
        reference = _mapping(_mapping(entry.get("valueFrom")).get("secretKeyRef"))
        named = (reference.get("name"), reference.get("key"))
        if reference and named != own.secret:
            where = f"{path}.env[{entry.get('name')}]"
            yield where, "it reads a Secret", "use model.source.huggingFace.tokenSecretRef"
    for entry in _items(container.get("envFrom")):
        if entry.get("secretRef") is not None:
            yield f"{path}.envFrom.secretRef", "it reads a whole Secret", "use a configMapRef"
    yield from _host_breaches(container, path)


def _host_breaches(container: Mapping[str, Any], path: str) -> Iterator[_Breach]:
    """Yield probes and hooks that make the node call another host than the pod."""
    handlers = {probe: container.get(probe) for probe in _PROBES}
    hooks = _mapping(container.get("lifecycle"))
    handlers |= {f"lifecycle.{hook}": handler for hook, handler in hooks.items()}
    for name, handler in handlers.items():
        for kind in ("httpGet", "tcpSocket"):
            if _mapping(_mapping(handler).get(kind)).get("host"):
                yield f"{path}.{name}.{kind}.host", "the node would call that host", LEAVE_OUT


def _context_breaches(context: Any, path: str, checks: "Sequence[_Check]") -> Iterator[_Breach]:
    given = _mapping(context)
    for check in checks:
        if not check.holds(check.value_in(given)):
            yield f"{path}.{'.'.join(check.field)}", check.why, check.instead


@dataclass(frozen=True, slots=True)
class _Check:
    """One field of a security context and its allowed values; absent is `None`."""

    field: tuple[str, ...]
    holds: Callable[[Any], bool]
    why: str
    instead: str = LEAVE_OUT

    def value_in(self, context: Any) -> Any:
        for step in self.field:
            context = _mapping(context).get(step)
        return context


def _texts(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


_BOTH = (
    _Check(("runAsUser",), lambda user: user != 0, "the pod would run as root"),
    _Check(
        ("seLinuxOptions",),
        lambda options: (
            options is None
            or (
                _mapping(options).get("type", "container_t") in SELINUX_TYPES
                and not {"user", "role"} & set(_mapping(options))
            )
        ),
        "it changes the container's SELinux domain",
    ),
    _Check(
        ("appArmorProfile", "type"),
        lambda kind: kind in (None, *_SECCOMP),
        "it turns AppArmor off",
    ),
    _Check(
        ("windowsOptions", "hostProcess"), lambda host: not host, "the pod would run on the node"
    ),
)
_POD_CONTEXT = (
    *_BOTH,
    _Check(
        ("runAsNonRoot",), lambda value: value is True, "the pod could run as root", "write true"
    ),
    _Check(
        ("seccompProfile", "type"),
        lambda kind: kind in _SECCOMP,
        "every system call would be allowed",
        "write RuntimeDefault",
    ),
    _Check(
        ("sysctls",),
        lambda sysctls: all(str(each.get("name")) in SAFE_SYSCTLS for each in _items(sysctls)),
        "it changes the node's kernel",
    ),
)
_CONTAINER_CONTEXT = (
    *_BOTH,
    _Check(("privileged",), lambda value: not value, "a privileged container controls its node"),
    _Check(
        ("allowPrivilegeEscalation",),
        lambda value: value is False,
        "a process could gain privileges",
        "write false",
    ),
    _Check(("runAsNonRoot",), lambda value: value is not False, "the pod could run as root"),
    _Check(
        ("seccompProfile", "type"),
        lambda kind: kind in (None, *_SECCOMP),
        "every system call would be allowed",
        "write RuntimeDefault",
    ),
    _Check(
        ("capabilities", "add"),
        lambda added: set(map(str, _texts(added))) <= {"NET_BIND_SERVICE"},
        "it adds capabilities of root",
    ),
    _Check(
        ("capabilities", "drop"),
        lambda dropped: "ALL" in _texts(dropped),
        "the container would keep capabilities of root",
        "write [ALL]",
    ),
    _Check(("procMount",), lambda kind: kind in (None, "Default"), "it unmasks /proc"),
)
_HOST = {"hostNetwork": "network", "hostPID": "processes", "hostIPC": "memory"}
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> Iterator[Mapping[str, Any]]:
    return (each for each in _texts(value) if isinstance(each, Mapping))
