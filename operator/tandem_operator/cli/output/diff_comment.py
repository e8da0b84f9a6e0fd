"""`tandem diff` as a comment for a pull request, in Markdown."""

from collections.abc import Iterator, Sequence

from tandem_operator.cli.experiments import objective_costs
from tandem_operator.cli.input.traffic import describe
from tandem_operator.cli.output.compared import (
    Comparison,
    Row,
    edits,
    engines,
    notes,
    restarts,
    rows,
    slos,
    verdict,
)
from tandem_operator.cli.output.tenant_tables import compared_rows
from tandem_operator.cli.units import clock

SHOWN_CHANGES = 10


def markdown(found: Comparison) -> str:
    """Return a comment for a pull request."""
    old, new = found.runs
    tenants = tuple(compared_rows(found))
    lines = [
        f"### Tandem: what this does to `{found.pools[1].metadata.name}`",
        "",
        f"**{verdict(found)}** {restarts(found)}",
        "",
        *(f"- `{_cell(edit)}`" for edit in edits(found)),
        "",
        *(f"{_cell(line)}  " for line in (*slos(found), *notes(found))),
        "",
        *_table(found.titles, tuple(rows(found))),
        *(("", *_table(found.titles, tenants)) if tenants else ()),
        "",
        *(f"{_cell(line)}  " for line in objective_costs.sentences(found.budget)),
        "",
        f"Simulated with the live decision core: {_cell(describe(old.case.trace))};"
        f" {_cell(engines(found))}, seed {old.case.seed}.",
    ]
    if new.changes:
        changes = [f"- {clock(c.at_s)} {_cell(c.sentence)}" for c in new.changes[-SHOWN_CHANGES:]]
        lines += ["", "<details><summary>Last decisions under the new spec</summary>", ""]
        lines += [*changes, "", "</details>"]
    return "\n".join(lines) + "\n"


def _table(titles: Row, lines: Sequence[Row]) -> Iterator[str]:
    yield "| | " + " | ".join(titles[1:]) + " |"
    yield "|---|" + "---:|" * (len(titles) - 1)
    yield from ("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'").replace("\n", " ")
