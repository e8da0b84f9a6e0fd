"""The destinations of results: files, standard output, the terminal; and progress before them."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from itertools import combinations
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tandem_operator.cli.command_errors import BadInputError
from tandem_operator.cli.experiments.experiment import OnProgress
from tandem_operator.cli.output.printable import WrittenOut

STANDARD_OUTPUT = "-"
FILE_WIDTH = 160


def screen(*outputs: str | None) -> Console:
    """Return the console for tables: standard output, or standard error if an output uses that."""
    # Printed texts quote Kubernetes and users: brackets in them are no markup.
    console = Console(stderr=STANDARD_OUTPUT in outputs, markup=False, highlight=False)
    console.push_render_hook(WrittenOut())
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console


def paper(console: Console) -> Console:
    """Return a console that keeps its text, in the width and colours of another."""
    kept = Console(
        file=StringIO(),
        force_terminal=True,
        width=console.width,
        no_color=console.no_color,
        markup=False,
        highlight=False,
    )
    kept.push_render_hook(WrittenOut())
    return kept


def write_json(target: str | None, value: Any) -> None:
    """Write a value as JSON, if the user asked for it."""
    if target is not None:
        write(target, json.dumps(value, indent=1, allow_nan=False) + "\n")


def write(target: str, text: str) -> None:
    """Write a text to a file or to standard output.

    Raises:
        BadInputError: the file cannot be written.
    """
    if target == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"{target}: cannot be written ({error.strerror})") from None


def check_outputs(
    outputs: Mapping[str, str | None], *, inputs: Mapping[str, Path | str | None]
) -> None:
    """Refuse outputs that would be lost or destroy something, before a long run begins.

    Outputs and inputs are given by the option that names them.

    Raises:
        BadInputError: a folder is missing, a path is no file, or another option uses the file.
    """
    wanted = {option: target for option, target in outputs.items() if target is not None}
    for option, target in wanted.items():
        if not target:
            raise BadInputError(f"{option} must name a file, such as {_EXAMPLES[option]}")
        if target == STANDARD_OUTPUT:
            continue
        path = Path(target)
        if path.is_dir() or not path.parent.is_dir():
            why = "is a folder" if path.is_dir() else f"the folder {path.parent} does not exist"
            raise BadInputError(f"{target}: cannot be written ({why})")
        for source, read in inputs.items():
            if read is not None and path.exists() and _same_file(path, Path(read)):
                raise BadInputError(
                    f"{option} {target} would overwrite what {source} reads; name another file,"
                    f" such as {_EXAMPLES[option]}"
                )
    for (first, one), (second, other) in combinations(wanted.items(), 2):
        if one == other == STANDARD_OUTPUT:
            raise BadInputError(f"{first} and {second} cannot both go to standard output")
        if _same_file(Path(one), Path(other)):
            raise BadInputError(f"{first} and {second} both name {other}; name two files")


_EXAMPLES = {
    "-o": "trace.jsonl",
    "--json": "out.json",
    "--html": "report.html",
    "--markdown": "comment.md",
}


def _same_file(one: Path, other: Path) -> bool:
    """Return whether two paths lead to one file, also by links; a device has nothing to lose."""
    if one.exists() and other.exists():
        return one.is_file() and one.samefile(other)
    return one.resolve() == other.resolve()


class Bars:
    """The progress of consecutive runs, with a bar each."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    @contextmanager
    def run(self, name: str, *, span_s: float) -> Iterator[OnProgress]:
        """Show a bar for one run; call it with the simulated time."""
        task = self._progress.add_task(name, total=max(1.0, span_s))
        yield lambda at_s: self._progress.update(task, completed=min(at_s, span_s))
        self._progress.remove_task(task)

    @contextmanager
    def steps(self, name: str) -> Iterator[OnProgress]:
        """Show a bar for steps whose number is not known; each call is one step."""
        task = self._progress.add_task(name, total=None)
        yield lambda _: self._progress.advance(task)
        self._progress.remove_task(task)


@contextmanager
def bars() -> Iterator[Bars]:
    """Show progress bars on standard error until the work is done; none without a terminal."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield Bars(progress)
