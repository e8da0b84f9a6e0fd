"""Command line of the local cluster: `python3 -m e2e.cluster COMMAND`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from e2e.cluster import cluster, docker, doctor, images, prometheus, tools
from e2e.cluster.binaries import api_binaries
from e2e.cluster.gobuild import GITOPS, POLICIES, PROMETHEUS, PROMTOOL, Group, build, go_problem
from e2e.cluster.progress import CannotContinueError


def main() -> int:
    """Run one command; what the machine lacks is one sentence on stderr and exit status 1."""
    arguments = _parser().parse_args()
    command: Callable[[argparse.Namespace], None] = arguments.command
    try:
        command(arguments)
    except CannotContinueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the next run goes on from here", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m e2e.cluster",
        description="A real kind cluster on this machine, with or without a container registry.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, what: str, command: Callable[[argparse.Namespace], None]
    ) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=what, description=what)
        one.set_defaults(command=command)
        return one

    add("up", "Make the cluster, or repair it, and wait until it is healthy.", _up)
    add("down", "Remove the cluster if it is ours; images and cache stay.", _down)
    add("tools", "Get kubectl, kind and helm where suitable ones are missing.", _tools)
    add("controlplane-binaries", "Get etcd and Kubernetes' API server for tests.", _api)
    add("policy-engine", "Get what judges NetworkPolicies in tests, if Go is here.", _policies)
    add("prometheus-binaries", "Get what tests alerts and dashboards.", _metrics_tools)
    add("gitops-tool", "Get what judges objects as Flux and Argo CD do.", _gitops)
    add("doctor", "Say what this machine has, lacks, and what would be done about it.", _doctor)
    building = add("images", "Build our images where their inputs changed.", _images)
    building.add_argument(
        "--load", action="store_true", help="then put them into the cluster if one runs"
    )
    loading = add("load", "Put images into the cluster; ours where none are named.", _load)
    loading.add_argument("image", nargs="*", help="image that Docker holds, for example a:1")
    add("prometheus", "Install Prometheus into the cluster.", _prometheus)
    accelerators = add(
        "accelerators", "Let the node report N accelerators that can be requested.", _accelerators
    )
    accelerators.add_argument("count", type=int, metavar="N")
    return parser


def _up(_: argparse.Namespace) -> None:
    cluster.up()


def _down(_: argparse.Namespace) -> None:
    cluster.down()


def _tools(_: argparse.Namespace) -> None:
    for name, path in tools.ensure_tools().items():
        print(f"{name}={path}")


def _api(_: argparse.Namespace) -> None:
    found = api_binaries()
    for path in (found.etcd, found.kube_apiserver, found.kube_controller_manager, found.kubectl):
        print(path)


def _policies(_: argparse.Namespace) -> None:
    _build(POLICIES)


def _metrics_tools(_: argparse.Namespace) -> None:
    _build(PROMTOOL, PROMETHEUS)


def _gitops(_: argparse.Namespace) -> None:
    _build(GITOPS)


def _build(*groups: Group) -> None:
    problem = go_problem()
    for group in groups:
        print(problem or build(group))


def _doctor(_: argparse.Namespace) -> None:
    print(doctor.report())


def _images(arguments: argparse.Namespace) -> None:
    docker.ensure_engine()
    tags = images.build_all()
    if arguments.load and cluster.is_running():
        images.load(tags.values())
    for name, tag in tags.items():
        print(f"{name}={tag}")


def _load(arguments: argparse.Namespace) -> None:
    docker.ensure_engine()
    images.load(arguments.image or images.build_all().values())


def _prometheus(_: argparse.Namespace) -> None:
    docker.ensure_engine()
    prometheus.install()


def _accelerators(arguments: argparse.Namespace) -> None:
    cluster.set_accelerators(arguments.count)


if __name__ == "__main__":
    sys.exit(main())
