"""Write the page of all tuning numbers of decisions from `core/tuning`."""

import ast
import inspect
from dataclasses import fields

from tandem_contracts.document import texts_below
from tandem_operator.core.tuning.tuning import TUNING

HEAD = """\
# Tuning reference

`decide` takes one record with all numbers that were chosen and not derived. The code of this
record is in `operator/tandem_operator/core/tuning`. Users do not set these numbers: they set the
SLO and the bounds of a pool. A benchmark passes other numbers, to measure the value of a step.

The end of a name is its unit: `_s` is seconds, `_rps` is requests per second, `_share` is a part of
one. `_ratio` is a factor, and `_deviations` is standard deviations. Other ends name the counted
things: `_requests`, `_tokens`, `_rows`, `_steps`. `make crds` writes this page. A table in
`core/forecast/experts.py` lists the forecasts that compete.
"""


def render() -> str:
    """Return the whole page: a section for each room of the core."""
    return HEAD + "".join(f"\n## {room.name}\n\n{_table(room.name)}" for room in fields(TUNING))


def _table(room: str) -> str:
    record = getattr(TUNING, room)
    [definition] = ast.parse(inspect.getsource(type(record))).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 - the source of a class
    meanings = dict(texts_below(definition.body))
    rows = [
        f"| `{each.name}` | {_shown(getattr(record, each.name))} | {meanings[each.name]} |\n"
        for each in fields(record)
    ]
    return "| number | value | meaning |\n|---|---|---|\n" + "".join(rows)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    if callable(value):
        return f"`{value.__name__}`"
    return f"{value:g}" if isinstance(value, float) else str(value)
