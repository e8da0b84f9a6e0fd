"""The report on this machine: what it has, what it lacks, and what a run would install or build."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from e2e.cluster import cluster, docker, gobuild, names, rootfs, tools
from e2e.cluster.images import IMAGES

_FREE_GB = 30
_MEMORY_GB = 8


@dataclass(frozen=True, slots=True)
class Finding:
    """One row: a thing, how it stands, and what will be done; `blocks` if nothing can be done."""

    thing: str
    state: str
    action: str = "-"
    blocks: bool = False


def report() -> str:
    """Return a table of findings and one sentence of verdict."""
    findings = examine()
    rows = [("", "THING", "HERE", "A RUN WILL")]
    rows += [("!" if one.blocks else "", one.thing, one.state, one.action) for one in findings]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]))
        for row in rows
    ]
    return "\n".join([*lines, "", verdict(findings)])


def verdict(findings: list[Finding]) -> str:
    """Return one sentence: ready, or the first thing that stands in the way."""
    for one in findings:
        if one.blocks:
            return f"This machine cannot make the cluster: {one.action}"
    return "This machine can run `make demo` and `make test`."


def examine() -> list[Finding]:
    """Look at everything that the cluster, the images and the tests need."""
    has_docker = docker.engine_answers()
    pulls = has_docker and docker.can_pull()
    return [
        *_machine(),
        _docker(has_docker),
        _registry(has_docker=has_docker, pulls=pulls),
        *([] if pulls else _self_built(is_certain=has_docker)),
        *(_tool(tool) for tool in tools.TOOLS),
        _uv(),
        *_made(has_docker),
    ]


def _machine() -> list[Finding]:
    names.cache_dir().mkdir(parents=True, exist_ok=True)
    free_gb = shutil.disk_usage(names.cache_dir()).free / 1e9
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return [
        Finding("cores", f"{os.cpu_count()}"),
        Finding("memory", f"{memory_gb:.0f} GB", _at_least(memory_gb, _MEMORY_GB)),
        Finding("free disk", f"{free_gb:.0f} GB", _at_least(free_gb, _FREE_GB)),
        Finding("cache", str(names.cache_dir())),
    ]


def _at_least(found_gb: float, wanted_gb: int) -> str:
    return "-" if found_gb >= wanted_gb else f"try, though {wanted_gb} GB are advised"


def _docker(answers: bool) -> Finding:
    if answers:
        return Finding("docker", "answers", "use it as it is")
    if problem := docker.start_problem():
        return Finding("docker", "does not answer", problem, blocks=True)
    if shutil.which("dockerd"):
        return Finding("docker", "installed, stopped", "start it")
    return Finding("docker", "missing", "install docker.io from Debian and start it")


def _registry(*, has_docker: bool, pulls: bool) -> Finding:
    if not has_docker:
        return Finding("registry", "unknown before Docker runs", "try it, else make images here")
    if pulls:
        return Finding("registry", "answers", "pull published images")
    return Finding("registry", "does not answer", "make node and base images here")


def _self_built(*, is_certain: bool) -> list[Finding]:
    groups = (gobuild.API, gobuild.NODE, gobuild.ETCD, gobuild.COREDNS)
    lacking = [group.name for group in groups if not gobuild.is_built(group)]
    go, debian = gobuild.go_problem(), rootfs.can_make()
    return [
        Finding(
            "Go (for images made here)", "unsuitable" if go else "suitable", go or "-", bool(go)
        ),
        Finding(
            "Debian and root", "no" if debian else "yes", debian or "-", bool(debian) and is_certain
        ),
        Finding(
            "Kubernetes, etcd, CoreDNS",
            "in part" if lacking else "cached",
            f"build from Go modules: {', '.join(lacking)}" if lacking else "-",
        ),
    ]


def _tool(tool: tools.Tool) -> Finding:
    if found := tools.suitable(tool):
        return Finding(tool.name, str(found), "use it")
    if (names.bin_dir() / tool.name).exists():
        return Finding(tool.name, str(names.bin_dir() / tool.name), "use it")
    return Finding(tool.name, f"none of version {tool.wanted}", f"put one into {names.bin_dir()}")


def _uv() -> Finding:
    found, own = tools.uv_program(), names.cache_dir() / "uv" / "bin"
    return Finding("uv", found or "missing", "use it" if found else f"put one into {own}")


def _made(has_docker: bool) -> list[Finding]:
    if not has_docker:
        return []
    state = cluster.node_state()
    doing: dict[cluster.NodeState, str] = {
        cluster.NodeState.ABSENT: "make it",
        cluster.NodeState.UNFINISHED: "remove what a killed run left, and make it",
        cluster.NodeState.STOPPED: "start it again",
        cluster.NodeState.RUNNING: "check its health",
    }
    images = [
        Finding(image.repository, "built" if docker.has_image(image.tag) else "not built", action)
        for image in IMAGES
        for action in ["-" if docker.has_image(image.tag) else f"build {image.tag}"]
    ]
    return [Finding(f"cluster {names.CLUSTER}", state, doing[state]), *images]
