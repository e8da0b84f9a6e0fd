"""The results of `tandem doctor` as lines: a mark, the thing, its state, the remedy."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tandem_operator.cli.diagnosis.check_result import CheckResult, CheckState
from tandem_operator.cli.output.printable import printable

STYLES = {
    CheckState.OK: "green",
    CheckState.NOTE: "",
    CheckState.PROBLEM: "red",
    CheckState.UNKNOWN: "yellow",
}


def show_results(console: Console, found: Sequence[CheckResult]) -> None:
    """Print a line for each result, its remedy below it, and a summary."""
    table = Table.grid(padding=(0, 2))
    for no_wrap in (True, True, False):
        table.add_column(no_wrap=no_wrap, overflow="fold")
    for each in found:
        mark = Text(each.state.value, style=STYLES[each.state])
        table.add_row(mark, Text(each.topic.value), Text(printable(each.sentence)))
        if each.remedy:
            table.add_row("", "", Text(f"-> {printable(each.remedy)}"))
    console.print(table)
    console.print(summary(found), style="bold", soft_wrap=True)


def summary(found: Sequence[CheckResult]) -> str:
    """Return the number of problems, in a sentence."""
    counts = Counter(each.state for each in found)
    problems, unseen = counts[CheckState.PROBLEM], counts[CheckState.UNKNOWN]
    told = f"{problems} problem{'s' * (problems != 1)}" if problems else "No problem was found"
    left = f"; {unseen} part{'s' * (unseen != 1)} of the cluster cannot be read" if unseen else ""
    return f"{told}{left}."
