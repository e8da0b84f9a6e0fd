"""`tandem profile export` writes what a live pool learned as a file that --profile takes."""

import json

import pytest

from tests.unit.cli.files import SHORT, failed, sentence, tandem
from tests.unit.cli.saved import learned_memory, memory


def test_the_profile_of_a_live_pool_is_taken_as_any_other(cluster, pool):
    cluster.memory = learned_memory()

    result = tandem("profile", "export", "chat", "-o", "chat.json")

    assert result.exit_code == 0, result.output
    assert "chat.json: learned by Tandem of pool team/chat, revision abc" in result.stdout
    assert "  prefill: as an engine measured itself at its start" in result.stdout
    assert "  KV cache of a replica: 600,000 tokens, told by engines" in result.stdout
    assert "  cold start: 54.5 s, the median of 10 (prefill 54.5 s)" in result.stdout
    told = json.loads(
        tandem("simulate", "-f", pool, "--profile", "chat.json", *SHORT, "--json").stdout
    )
    assert (told["profile"], told["cold_start_s"]) == ("chat.json", 54.5)
    assert told["runs"][0]["attainment"] > 0.5


def test_a_cold_start_on_the_command_line_goes_before_that_of_the_file(cluster, pool):
    cluster.memory = learned_memory()
    tandem("profile", "export", "chat", "-o", "chat.json")
    words = ("-f", pool, "--profile", "chat.json", "--cold-start", "7s", *SHORT, "--json")

    assert json.loads(tandem("simulate", *words).stdout)["cold_start_s"] == 7.0


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (None, "team/chat has no learned profile: the operator has stored nothing"),
        (memory("{}"), "team/chat has no learned profile: The stored memory has version None"),
        (memory(), "team/chat has not learned yet how long a prefill takes"),
    ],
)
def test_a_pool_that_learned_nothing_has_no_profile_and_says_why(cluster, kept, said):
    cluster.memory = kept

    assert said in failed(tandem("profile", "export", "chat", "-o", "-"))


def test_without_a_profile_and_a_pool_engines_are_asked_for(pool):
    said = sentence(tandem("simulate", "-f", pool, *SHORT))

    assert "name engines with --profile, such as --profile h200-llama-3.1-8b-fp8" in said


def test_its_help_has_an_example_of_it():
    result = tandem("profile", "export", "--help")

    assert "tandem profile export qwen" in result.stdout.partition("Examples:")[2]
