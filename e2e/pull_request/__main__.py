"""`python -m e2e.pull_request`: the story on the kind cluster, with real engines under load."""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from e2e.cluster import names
from e2e.cluster.progress import CannotContinueError, run, step
from e2e.commands import CommandError, kubectl, program
from e2e.demo import setup
from e2e.demo.verdict import Finding
from e2e.pools import NotInTimeError, wait_for_door
from e2e.pull_request.story import OUT, Place, tell

NAMESPACE, POOL, URL = "tandem-demo", "tiny", "http://127.0.0.1:30080"


@contextmanager
def _operator_metrics() -> Iterator[int]:
    command = [program("kubectl"), "--kubeconfig", names.KUBECONFIG, "port-forward"]
    where = ("-n", setup.OPERATOR_NAMESPACE, "deployment/tandem-operator", ":8080")
    with subprocess.Popen([*command, *where], stdout=subprocess.PIPE, text=True) as forward:
        try:
            assert forward.stdout is not None
            told = forward.stdout.readline().partition(" -> ")[0].rpartition(":")[2]
            if not told:
                raise CannotContinueError("The operator's port 8080 cannot be forwarded.")
            yield int(told)
        finally:
            forward.terminate()


@contextmanager
def _load() -> Iterator[None]:
    lengths = ("--prompt-tokens", "32-96", "--output-tokens", "240-360")
    command = (sys.executable, "-m", "benchmarks.load", "--url", URL, "--model", POOL, *lengths)
    with (OUT / "load.log").open("w") as log:
        sending = subprocess.Popen(
            [*command, "--rate-rps", "0.7", "--duration-s", "3600"], stdout=log
        )
        try:
            yield
        finally:
            sending.terminate()
            sending.wait()


def main() -> int:
    """Run it on the kind cluster; return 1 if anything was not as it should be."""
    parser = argparse.ArgumentParser(
        prog="python -m e2e.pull_request",
        description="A pull request that tightens an SLO, from a branch to the running pool.",
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="of traffic before the edit")
    parser.add_argument("--watch", type=float, default=120.0, help="seconds after it")
    parser.add_argument("--tpot", default="28ms", help="the tighter bound")
    options = parser.parse_args()
    try:
        findings = _on_kind(options)
    except (CannotContinueError, CommandError, NotInTimeError) as error:
        print(f"The story cannot go on: {error}", file=sys.stderr)
        return 1
    print(f"\n{(OUT / 'comment.md').read_text()}")
    for one in findings:
        print(f"{'yes' if one.shown else 'NO '} {one.sentence}")
    print(f"{OUT.relative_to(names.ROOT)} has the comment, the history and the figures.")
    return 0 if all(one.shown for one in findings) else 1


def _on_kind(options: argparse.Namespace) -> list[Finding]:
    OUT.mkdir(parents=True, exist_ok=True)
    images = setup.built_images()
    setup.remove_pool(namespace=NAMESPACE)
    setup.install_operator(images=images)
    setup.make_namespace(NAMESPACE)
    kubectl("apply", "-n", NAMESPACE, "-f", str(setup.DOOR))
    made = (
        setup.sample_pool(namespace=NAMESPACE, images=images, tpot_target=tpot)
        for tpot in (None, options.tpot)
    )
    with ExitStack() as stack:
        port = stack.enter_context(_operator_metrics())

        def record() -> dict[str, str]:
            wait_for_door(URL)
            stack.enter_context(_load())
            with step("load", f"{options.minutes:g} min of traffic"):
                time.sleep(60.0 * options.minutes)
            where = ("-n", NAMESPACE, "--kubeconfig", names.KUBECONFIG, "-o", "-")
            tandem = (sys.executable, "-m", "tandem_operator.cli")
            return {
                "traffic": run([*tandem, "record", POOL, "--since", "20m", *where]),
                "engines": run([*tandem, "profile", "export", POOL, *where]),
            }

        place = Place(names.KUBECONFIG, NAMESPACE, POOL, port)
        return tell(place, pools=(next(made), next(made)), record=record, watch_s=options.watch)


if __name__ == "__main__":
    sys.exit(main())
