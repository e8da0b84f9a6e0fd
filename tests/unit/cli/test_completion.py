"""The tab key: commands, values of options, and names of the pools of the cluster that is meant."""

import pytest
from typer.testing import CliRunner

from tandem_operator.cli.app import app
from tests.unit.cli.saved import pool


def completed(*words: str) -> list[str]:
    env = {
        "_TANDEM_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("tandem", *words)),
        "COMP_CWORD": str(len(words)),
    }
    result = CliRunner().invoke(app, [], env=env, prog_name="tandem")
    assert result.exit_code == 0, result.output
    return result.stdout.split()


def called(name: str, namespace: str = "team") -> dict:
    made = pool()
    return {**made, "metadata": {**made["metadata"], "name": name, "namespace": namespace}}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("t",), ["top"]),
        (("do",), ["doctor"]),
        (("li",), ["lint"]),
        (("lint", "--output", ""), ["text", "json", "github"]),
        (("top", "--sort", "b"), ["budget"]),
        (("top", "-o", "w"), ["wide"]),
        (("doctor", "-o", "j"), ["json"]),
    ],
)
def test_commands_and_values_are_completed(words, found):
    assert completed(*words) == found


@pytest.mark.parametrize(
    "words",
    [
        ("top", "ch"),
        ("top", "-n", "team", "ch"),
        ("top", "-A", "ch"),
        ("explain", "ch"),
        ("record", "ch"),
        ("profile", "export", "ch"),
        ("simulate", "--pool", "ch"),
    ],
    ids=" ".join,
)
def test_names_of_pools_are_completed(cluster, words):
    cluster.listed = [called("chat-b"), called("chat-a"), called("chat-a", "other"), called("x")]

    assert completed(*words) == ["chat-a", "chat-b"]


def test_where_pools_cannot_be_listed_nothing_is_completed_and_nothing_said(cluster):
    cluster.list_refused = (403, "no")

    assert completed("explain", "ch") == []


def test_without_a_cluster_nothing_is_completed_and_nothing_said(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    assert completed("top", "c") == []
