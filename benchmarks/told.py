"""Rows of a benchmark, told as they come: a long run that is cut off has lost only its rest."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

R = TypeVar("R")


def told(
    rows: Iterable[R],
    *,
    line: Callable[[R], str],
    figures: Callable[[R], object] = lambda row: row,
    path: Path | None = None,
    before: Sequence[R] = (),
) -> list[R]:
    """Print each row, and write the figures of all so far to a file; return all rows.

    Args:
        rows: made one by one.
        line: what is printed of a row.
        figures: what is written of a row.
        path: the file; `None`: none.
        before: rows of an earlier run, which are written too.
    """
    found = list(before)
    for row in rows:
        found.append(row)
        print(line(row), flush=True)
        if path is not None:
            path.write_text(json.dumps([figures(each) for each in found], indent=1) + "\n")
    return found
