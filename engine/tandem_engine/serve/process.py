"""The vLLM process: it passes on and keeps output, stops the whole group, and reaps orphans."""

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import Self

from tandem_engine.serve.engine_command import EngineCommand

REMEMBERED_LINES = 400
_CHUNK_BYTES = 65536


@dataclass(slots=True)
class EngineProcess:
    """One running vLLM, with the last lines of its output."""

    process: asyncio.subprocess.Process
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED_LINES))
    _reader: "asyncio.Task[None] | None" = None

    @classmethod
    async def start(cls, command: EngineCommand) -> Self:
        """Start vLLM in its own process group: only the launcher tells it to stop."""
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            env={**os.environ, **command.env},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        engine = cls(process)
        engine._reader = asyncio.create_task(engine._read())
        return engine

    @property
    def exit_code(self) -> int | None:
        """Return its exit code (negative: the signal), or `None` while it runs."""
        return self.process.returncode

    async def ended(self) -> int:
        """Wait for its end and for the last of its output."""
        code = await self.process.wait()
        if self._reader is not None:
            # Its children may hold the pipe open for longer; the last words have arrived by now.
            await asyncio.wait([self._reader], timeout=1.0)
        return code

    def terminate(self) -> None:
        """Ask it to stop."""
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()

    def kill(self) -> None:
        """End it and all its children at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    async def stop(self, *, timeout_s: float) -> None:
        """Ask it to stop, then end the rest of its group."""
        self.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.ended(), timeout_s)
        self.kill()
        await self.ended()

    def reap_orphans(self) -> None:
        """Collect orphaned grandchildren, which this process inherits if it is process 1."""
        with contextlib.suppress(ChildProcessError):
            while True:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                # The event loop collects vLLM itself; otherwise it would miss the exit code.
                if found is None or found.si_pid == self.process.pid:
                    return
                os.waitpid(found.si_pid, os.WNOHANG)

    async def _read(self) -> None:
        assert self.process.stdout is not None, "started with a pipe"  # noqa: S101
        rest = b""
        while chunk := await self.process.stdout.read(_CHUNK_BYTES):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            *whole, rest = (rest + chunk).split(b"\n")
            self.lines.extend(line.decode(errors="replace") for line in whole)
            rest = rest[-_CHUNK_BYTES:]
        if rest:
            self.lines.append(rest.decode(errors="replace"))
