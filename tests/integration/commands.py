"""`tandem` as a process of its own: as a user of a cluster, and on a terminal."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from types import TracebackType

from e2e.cluster.controlplane import ControlPlane

COMMAND = (sys.executable, "-m", "tandem_operator.cli")
PATIENCE_S = 180.0


def environment(control_plane: ControlPlane, user: str) -> dict[str, str]:
    """Return the environment of a user of the cluster, without a proxy."""
    kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    return {**kept, "KUBECONFIG": str(control_plane.user_kubeconfig(user))}


def tandem(control_plane: ControlPlane, *words: str, user: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user of the cluster, without a terminal."""
    return subprocess.run(
        [*COMMAND, *words],
        env=environment(control_plane, user),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


class Screen:
    """A terminal of 50 lines of 160 characters with `tandem` on it, and its whole output."""

    def __init__(self, *words: str, env: Mapping[str, str]) -> None:
        self.text = ""
        self.returncode: int | None = None
        self._mine, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self._process = subprocess.Popen(
            [*COMMAND, *words],
            env={**env, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            # A terminal of its own, so that nothing reaches the one that runs the tests.
            start_new_session=True,
        )
        os.close(theirs)
        os.set_blocking(self._mine, False)

    def __enter__(self) -> "Screen":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._mine)

    def await_text(self, words: str) -> None:
        """Wait until it has drawn these words since the last time that words were awaited."""
        begin, until_s = len(self.text), time.monotonic() + PATIENCE_S
        while words not in self.text[begin:]:
            assert time.monotonic() < until_s, self.text[begin:]
            assert self._read() or self._process.poll() is None, self.text[begin:]

    def interrupt(self) -> None:
        """Press Ctrl-C, and read its output until it ends."""
        self._process.send_signal(signal.SIGINT)
        until_s = time.monotonic() + PATIENCE_S
        while self._process.poll() is None:
            assert time.monotonic() < until_s, self.text
            self._read()
        self._read()
        self.returncode = self._process.returncode

    def _read(self) -> bool:
        try:
            self.text += os.read(self._mine, 65536).decode("utf-8", "replace")
        except BlockingIOError:
            time.sleep(0.02)
            return False
        except OSError:
            return False
        return True
