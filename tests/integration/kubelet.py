"""Has pods Ready, and gone, as a kubelet would, at a pace that an operator can follow."""

import contextlib
import json
import threading
import time

START_S = 2.0
"""No pod is Ready sooner: the operator has to see it start."""


class Kubelet:
    """Has pods Ready, and ended, one round after they began to start or to terminate."""

    def __init__(self, pool, *, host):
        self._pool, self.host = pool, host
        self._leaving = set()
        self.most_held = 0

    def pods(self):
        found = json.loads(self._pool.kubectl("get", "pods", "-o", "json"))["items"]
        return [
            each
            for each in found
            if each["metadata"]["labels"]["tandem-inference.io/role"] != "router"
        ]

    def round(self):
        time.sleep(START_S)
        pods = self.pods()
        self.most_held = max(self.most_held, len(pods))
        leaving = {
            each["metadata"]["name"] for each in pods if each["metadata"].get("deletionTimestamp")
        }
        for name in leaving & self._leaving:
            self._pool.kubectl("delete", "pod", name, "--grace-period=0", "--force")
        self._leaving = leaving
        self._pool.make_pods_ready(host=self.host)

    def replaced(self):
        self.round()
        pods = self.pods()
        revisions = {each["metadata"]["labels"]["tandem-inference.io/revision"] for each in pods}
        return len(revisions) == 1 and not any(
            each["metadata"].get("deletionTimestamp") for each in pods
        )


@contextlib.contextmanager
def pods_get_ready(pool, *, host):
    """Make each pod of the pool Ready soon after it appears, for the block."""
    with _again_and_again(lambda: pool.make_pods_ready(host=host), every_s=START_S):
        yield


@contextlib.contextmanager
def pods_come_and_go(pool, *, host):
    """Make each pod of the pool Ready, or gone, soon after it begins to start or to end."""
    with _again_and_again(Kubelet(pool, host=host).round, every_s=0.0):
        yield


@contextlib.contextmanager
def _again_and_again(step, *, every_s):
    """Take a step, whatever becomes of the one before, until the block ends."""
    ended = threading.Event()

    def follow():
        while not ended.wait(every_s):
            with contextlib.suppress(OSError, RuntimeError, AssertionError):
                step()

    following = threading.Thread(target=follow, daemon=True)
    following.start()
    try:
        yield
    finally:
        ended.set()
        following.join()
