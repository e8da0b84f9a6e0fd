"""`tandem diff` tells what an edit does to GPUs, attainment and cost, for people and for bots."""

import json
import re

import pytest

from tests.unit.cli.files import POOL, PROFILE, SHORT, sentence, tandem, write

pytestmark = pytest.mark.simulates


@pytest.fixture
def diff(tmp_path, pool):
    def diff(before, after, *words):
        new = write(tmp_path, "new.yaml", POOL.replace(before, after))
        words = words if "--seeds" in words else (*words, "--seeds", "1")
        return tandem("diff", pool, new, *PROFILE, *SHORT, *words)

    return diff


def test_a_tighter_bound_takes_more_gpus_and_says_so(diff, tmp_path):
    out = tmp_path / "diff.json"

    result = diff(
        "perThousandPromptTokens: 50ms", "perThousandPromptTokens: 0ms", "--json", str(out)
    )

    told = json.loads(out.read_text())
    assert result.exit_code == 0, result.output
    assert told["edits"] == ["slo.ttft.perThousandPromptTokens: 50ms -> 0ms"]
    assert told["old"]["slo"]["ttft_s_per_thousand_prompt_tokens"] == 0.05
    assert told["new"]["slo"]["ttft_s_per_thousand_prompt_tokens"] == 0.0
    assert told["difference"]["mean_gpus"] == pytest.approx(
        told["new"]["mean_gpus"] - told["old"]["mean_gpus"]
    )
    assert told["attainment_of_new_slo_at_old_sizes"] <= told["old"]["attainment"]
    assert "slo.ttft.perThousandPromptTokens: 50ms -> 0ms" in result.stdout
    assert "The edit restarts nothing" in result.stdout


def test_the_same_manifest_makes_no_difference(diff):
    result = diff("", "", "--json")

    told = json.loads(result.stdout)
    assert told["edits"] == []
    assert told["restarts"] == "The two specs are the same."
    assert set(told["difference"].values()) == {0, None}
    assert "changes no GPUs" in told["verdict"]


def test_markdown_is_a_comment_that_a_bot_can_post_as_it_is(diff):
    result = diff("target: 20ms", "target: 8ms", "--markdown", "--gpu-hour-price", "2")

    lines = result.stdout.splitlines()
    assert lines[0] == "### Tandem: what this does to `chat`"
    assert "- `slo.tpot.target: 20ms -> 8ms`" in lines
    table = [line for line in lines if line.startswith("|")]
    assert {line.count("|") for line in table} == {5}
    assert any(line.startswith("| cost of a month like this |") for line in table)
    assert not re.search(r"\x1b|━|│", result.stdout)
    assert "GPUs on average" in result.stderr
    assert "h200-llama-3.1-8b-fp8, KV transfer 262 GB/s, start-up 60 s, seed 1." in result.stdout


def test_names_the_fields_that_replace_pods(diff):
    result = diff("maxModelLen: 32768", "maxModelLen: 16384")

    assert "The edit replaces pods in a rolling update (model.maxModelLen)." in result.stdout


def test_says_so_where_two_pools_are_no_edit_of_one(diff):
    assert "this compares two pools" in diff("name: chat", "name: code").stdout


def test_check_fails_a_pipeline_where_the_new_slo_is_missed(diff):
    assert diff("target: 300ms", "target: 310ms", "--check", "--start", "4P2D").exit_code == 0

    failed = diff("target: 300ms", "target: 2ms", "--check")

    assert failed.exit_code == 1
    assert "misses the 95% wanted" in failed.stderr


def test_the_fault_of_either_manifest_is_told_with_its_file(diff):
    assert "new.yaml:17: spec.slo.tpot.target: " in sentence(diff("20ms", "fast"))


def test_two_outputs_cannot_share_the_screen(diff):
    said = sentence(diff("20ms", "30ms", "--markdown", "--json"))

    assert "cannot both go to standard output" in said


OTHER_MODEL = ("Llama-3.1-8B-Instruct", "Llama-3.3-70B-Instruct")


def test_says_so_where_one_profile_describes_two_models(diff):
    result = diff(*OTHER_MODEL, "--json")

    (note,) = (n for n in json.loads(result.stdout)["notes"] if "--new-profile" in n)
    assert "(model.source.huggingFace.repo)" in note
    assert "h200-llama-3.1-8b-fp8 describes both sides" in note


def test_each_side_is_simulated_on_a_profile_of_its_own(diff):
    result = diff(*OTHER_MODEL, "--new-profile", "h100-llama-3.1-8b", "--markdown")

    told = result.stdout
    assert "before: h200-llama-3.1-8b-fp8, KV transfer" in told
    assert "after: h100-llama-3.1-8b, KV transfer" in told
    assert "describes both sides" not in told


def test_an_edit_that_leaves_replicas_as_they_are_needs_no_second_profile(diff):
    notes = json.loads(diff("target: 20ms", "target: 30ms", "--json").stdout)["notes"]

    assert not any("--new-profile" in note for note in notes)


def test_what_chance_may_have_made_is_not_sold_as_a_difference(diff):
    result = diff("target: 20ms", "target: 19ms", "--seeds", "3", "--gpu-hour-price", "2", "--json")

    told = json.loads(result.stdout)
    spread = told["over_seeds"]["mean_gpus"]
    assert spread["seeds"] == 3
    assert not spread["shown"]
    assert (
        "no difference that this traffic can show" in told["verdict"]
        or "changes no GPUs" in told["verdict"]
    )
    assert "a month" not in told["verdict"]


def test_a_difference_that_every_seed_shows_is_told_with_its_interval(diff):
    result = diff("target: 20ms", "target: 8ms", "--seeds", "3", "--markdown")

    lines = result.stdout.splitlines()
    assert "| | old | new | difference | over 3 seeds |" in lines
    [gpus] = [line for line in lines if line.startswith("| GPUs on average |")]
    assert re.search(r"\| \+[\d.]+% to \+[\d.]+% \|$", gpus)
    assert re.search(r"takes [\d.]+ more GPUs on average \(.*over 3 seeds\)", lines[2])


def test_it_says_what_another_objective_costs(diff):
    result = diff("target: 20ms", "target: 15ms", "--json")

    told = json.loads(result.stdout)
    assert [each["attainment"] for each in told["budget"]] == [0.95, 0.99]
    assert told["budget"][0]["gpu_hours"] == told["new"]["gpu_hours"]
    assert "99% instead of 95%" in result.stderr
