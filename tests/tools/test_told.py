"""Rows of a benchmark are told as they come, and kept in a file from the first on."""

import json

from benchmarks.told import told


def test_each_row_is_printed_and_kept_before_the_next_is_made(tmp_path, capsys):
    path, seen = tmp_path / "rows.json", []

    def rows():
        yield 1
        seen.append((capsys.readouterr().out, json.loads(path.read_text())))
        yield 2

    found = told(rows(), line=lambda row: f"row {row}", figures=lambda row: {"n": row}, path=path)

    assert found == [1, 2]
    assert seen == [("row 1\n", [{"n": 1}])]
    assert json.loads(path.read_text()) == [{"n": 1}, {"n": 2}]


def test_rows_of_an_earlier_run_stay_in_the_file_and_are_not_printed(tmp_path, capsys):
    path = tmp_path / "rows.json"

    told([{"n": 2}], line=str, path=path, before=[{"n": 1}])

    assert json.loads(path.read_text()) == [{"n": 1}, {"n": 2}]
    assert capsys.readouterr().out == "{'n': 2}\n"


def test_without_a_file_rows_are_only_printed(capsys):
    told(["a"], line=str)

    assert capsys.readouterr().out == "a\n"
