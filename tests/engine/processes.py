"""The processes below one that a test started."""

from pathlib import Path


def descendants(pid: int) -> list[int]:
    """`pid` and every process that comes from it."""
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
