"""A table shows each of its figures whole, however narrow the terminal is."""

import io

import pytest
from rich.console import Console

from tandem_operator.cli.output.figure_table import FigureTable
from tandem_operator.cli.output.plan_tables import FLEET_TITLES

ROWS = (
    ("3P2D", "5", "yes", "100.00%", "129ms", "5.03ms", "363", "0.77", "1.91"),
    ("13P12D", "25", "yes, over budget", "99.95%", "1.25s", "15.3ms", "1,242", "11.15", "12.87"),
    ("Tandem", "4.33 mean", "no", "72.00%", "686ms", "6.89ms", "152", "1.83", "-"),
)


def lines_at(width, table=None):
    console = Console(file=io.StringIO(), width=width)
    console.print(table or FigureTable(FLEET_TITLES, ROWS, title="Fleets"))
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [200, 100, 90, 80, 72, 60, 50, 40, 30])
def test_no_figure_is_cut_at_any_width(width):
    lines = lines_at(width)
    words = {word for line in lines for word in line.replace("│", " ").split()}

    assert all(len(line) <= width for line in lines)
    assert not [line for line in lines if "…" in line]
    for row in ROWS:
        assert {word for cell in row for word in cell.split()} <= words


def test_a_wide_terminal_has_one_line_of_titles():
    lines = lines_at(200)

    assert len(lines) == 3 + len(ROWS)
    assert "GPU-hours / M tokens" in lines[1]


def test_at_80_columns_a_plan_without_a_budget_is_one_table():
    lines = lines_at(80, FigureTable(FLEET_TITLES, (ROWS[0], ROWS[2])))

    assert len([line for line in lines if line.startswith("Tandem")]) == 1


def test_each_part_of_a_narrow_table_names_its_rows():
    lines = lines_at(40)

    parts = len([line for line in lines if "━" in line])
    assert parts > 1
    for row in ROWS:
        assert len([line for line in lines if line.startswith(row[0])]) == parts


def test_rows_keep_their_style():
    table = FigureTable(("", "n"), (("a", "1"), ("b", "2")), styles=(None, "bold"))
    console = Console(file=io.StringIO(), width=40, force_terminal=True, color_system="standard")

    console.print(table)

    assert console.file.getvalue().count("\x1b[1m") > 0


def test_a_table_without_rows_is_its_titles():
    assert "n" in lines_at(40, FigureTable(("", "n"), ()))[0]
