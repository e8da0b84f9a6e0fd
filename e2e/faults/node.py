"""The means to act on processes and packets inside the node, behind Kubernetes' back."""

import contextlib
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from e2e.commands import CommandError, kubectl_json
from e2e.demo.setup import on_node

CHAIN = "TANDEM-FAULTS"
ENGINE_CORE = "EngineCore"
Undo = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a container, by its number on the node."""

    pid: int
    command: str


def container_id(pod: str, *, namespace: str) -> str:
    """Return the pod's first running container as containerd knows it."""
    statuses = kubectl_json("get", "pod", pod, "-n", namespace)["status"]["containerStatuses"]
    return str(statuses[0]["containerID"]).removeprefix("containerd://")


def pod_address(pod: str, *, namespace: str) -> str:
    """Return a pod's IP."""
    return str(kubectl_json("get", "pod", pod, "-n", namespace)["status"]["podIP"])


def processes(pod: str, *, namespace: str) -> list[Process]:
    """Return all processes of a pod's container."""
    container = container_id(pod, namespace=namespace)
    lines = on_node("ctr", "-n", "k8s.io", "task", "ps", container).splitlines()[1:]
    pids = [int(line.split()[0]) for line in lines]
    return [Process(pid, _command(pid)) for pid in pids]


def _command(pid: int) -> str:
    with contextlib.suppress(subprocess.CalledProcessError):
        return on_node("cat", f"/proc/{pid}/cmdline").replace("\0", " ").strip()
    return ""


def kill_container(pod: str, *, namespace: str) -> None:
    """SIGKILL a pod's first process without a word to Kubernetes: the kubelet has to find out."""
    container = container_id(pod, namespace=namespace)
    on_node("ctr", "-n", "k8s.io", "task", "kill", "-s", "SIGKILL", container)


def kill(which: Iterable[Process]) -> None:
    """SIGKILL processes."""
    pids = [str(process.pid) for process in which]
    if not pids:
        raise CommandError("there is no such process to end")
    on_node("kill", "-KILL", *pids)


def freeze(which: Iterable[Process]) -> Undo:
    """Stop processes in mid-air until the returned function is called."""
    pids = [str(process.pid) for process in which]
    if not pids:
        raise CommandError("there is no such process to stop")
    on_node("kill", "-STOP", *pids)

    def thaw() -> None:
        for pid in pids:
            # A probe may have had it killed meanwhile.
            with contextlib.suppress(subprocess.CalledProcessError):
                on_node("kill", "-CONT", pid)

    return thaw


def engine_core(pod: str, *, namespace: str) -> list[Process]:
    """Return the processes in which vLLM computes, beside its HTTP server."""
    found = processes(pod, namespace=namespace)
    return [each for each in found if ENGINE_CORE in each.command]


def static_pod_process(name: str) -> list[Process]:
    """Return a component of the control plane, by the name of its program."""
    return [Process(int(pid), name) for pid in on_node("pidof", name).split()]


def cut(pairs: Iterable[tuple[str, str]], *, port: int | None = None) -> Undo:
    """Drop packets between pairs of addresses, both ways; of one server port, or of all."""
    rules = list(_rules(pairs, port))
    mend_all_cuts()
    for rule in rules:
        on_node("iptables", "-A", CHAIN, *rule, "-j", "DROP")
    return mend_all_cuts


def _rules(pairs: Iterable[tuple[str, str]], port: int | None) -> Iterator[tuple[str, ...]]:
    for one, other in pairs:
        for source, target in ((one, other), (other, one)):
            ends = ("-s", source, "-d", target)
            if port is None:
                yield ends
            else:
                yield (*ends, "-p", "tcp", "--dport", str(port))
                yield (*ends, "-p", "tcp", "--sport", str(port))


def mend_all_cuts() -> None:
    """Let everything through again."""
    with contextlib.suppress(subprocess.CalledProcessError):
        on_node("iptables", "-N", CHAIN)
    for hook in ("FORWARD", "INPUT", "OUTPUT"):
        try:
            on_node("iptables", "-C", hook, "-j", CHAIN)
        except subprocess.CalledProcessError:
            on_node("iptables", "-I", hook, "1", "-j", CHAIN)
    on_node("iptables", "-F", CHAIN)
