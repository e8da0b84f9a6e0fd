"""The processes below one that a test started."""

import contextlib
from collections.abc import Iterable
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Return `pid` and every process that comes from it."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(status.parent.name)] = int(fields[1])
    found = {pid} & parents.keys()
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def alive(pids: Iterable[int]) -> list[int]:
    """Return the processes that still run; one that only has to be waited for does not."""
    found = []
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z":
                found.append(pid)
    return found
