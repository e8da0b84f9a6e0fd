"""Requests that no fleet can serve are told as such, not as a shortage of replicas."""

import json

import pytest

from tests.unit.cli.files import POOL, PROFILE, tandem, write

LONG, SHORT = 40_000, 1_000
NOTE = (
    "5 of 20 requests are longer than spec.model.maxModelLen 32768 (the longest has 40,010"
    " tokens); no fleet can serve them."
)


@pytest.fixture
def trace(tmp_path):
    rows = (
        {"timestamp": 500 * at, "input_length": SHORT if at % 4 else LONG, "output_length": 10}
        for at in range(20)
    )
    return write(tmp_path, "t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def told(tmp_path, pool, trace):
    """The JSON, the table and the page of a command on the trace."""

    def told(command, *words):
        out, page = str(tmp_path / "out.json"), tmp_path / "page.html"
        html = () if command == "diff" else ("--html", str(page))
        files = (pool, pool) if command == "diff" else ("-f", pool)
        seeds = () if command == "simulate" else ("--seeds", "1")
        outputs = ("--json", out, *html)
        result = tandem(command, *files, *PROFILE, "--trace", trace, *outputs, *seeds, *words)
        assert result.exit_code == 0, result.output
        with open(out) as file:
            return json.load(file), result.stdout, page.read_text() if html else ""

    return told


@pytest.mark.parametrize("command", ["simulate", "plan"])
def test_requests_longer_than_the_context_are_noted_in_table_page_and_json(told, command):
    values, shown, page = told(command)

    assert values["notes"] == [NOTE]
    assert values["requests_too_long"] == 5
    assert f"note: {NOTE}" in shown
    assert NOTE in page


def test_the_count_is_that_of_the_requests_which_the_simulator_refuses(told):
    [run] = told("simulate")[0]["runs"]

    assert run["failed"] == run["blame"]["error"] == 5


def test_requests_beyond_the_kv_cache_are_noted_by_that_limit(told):
    values, _, _ = told("simulate", "--kv-tokens", "20000")

    [note] = values["notes"]
    assert note.startswith("5 of 20 requests are longer than the 20,000 tokens of a replica's KV")


def test_a_plan_says_that_replicas_do_not_help(told):
    values, shown, page = told("plan")

    answer = (
        "No fleet can keep the SLO: 5 of 20 requests are longer than spec.model.maxModelLen 32768."
        " At most 75.00% can be good with any number of replicas."
    )
    assert values["answer"].startswith(answer)
    assert answer in shown
    assert "within the bounds" not in shown + page


def test_a_plan_whose_slo_bears_their_share_still_finds_its_fleet(tmp_path, trace):
    pool = write(tmp_path, "loose.yaml", POOL.replace("attainment: 95%", "attainment: 70%"))

    result = tandem("plan", "-f", pool, *PROFILE, "--trace", trace, "--seeds", "1")

    assert f"note: {NOTE}" in result.stdout
    assert "is the smallest fixed fleet that keeps the SLO" in result.stdout


def test_a_diff_shows_what_failed_and_why(told):
    values, shown, _ = told("diff")

    assert values["notes"] == [NOTE]
    assert "failed" in shown
    assert f"note: {NOTE}" in shown


def test_a_diff_says_which_of_the_two_manifests_refuses_requests(tmp_path, pool, trace):
    new = write(tmp_path, "new.yaml", POOL.replace("maxModelLen: 32768", "maxModelLen: 65536"))

    result = tandem("diff", pool, new, *PROFILE, "--trace", trace, "--seeds", "1", "--markdown")

    assert f"old: {NOTE}" in result.stdout
    assert f"note: old: {NOTE}" in result.stderr
    assert "| failed, unfinished | 5, 0 | 0, 0 |  |" in result.stdout


def test_traffic_that_fits_has_no_note_and_no_row(tmp_path, pool):
    short = write(tmp_path, "s.jsonl", '{"timestamp": 0, "input_length": 9, "output_length": 9}\n')

    result = tandem("diff", pool, pool, *PROFILE, "--trace", short, "--seeds", "1")

    assert "note:" not in result.stdout
    assert "failed" not in result.stdout
