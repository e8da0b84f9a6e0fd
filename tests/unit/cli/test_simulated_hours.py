"""Schedules in simulated time: when it begins, what it then holds, and what is refused."""

import json

import pytest

from tests.unit.cli.files import POOL, PROFILE, sentence, tandem, write

HOURS = """\
    schedules:
      - name: office
        start: "0 8 * * 1-5"
        duration: 10h
        timeZone: Europe/Berlin
        prefill: {minReplicas: 3}
"""
QUIET = ("--generate", "poisson", "--rate", "0.2", "--span", "30s", "--start", "min")
# Ten seconds before the office opens.
BEFORE = ("--begin", "2026-11-30T07:59:50+01:00")


@pytest.fixture
def simulated(tmp_path):
    def simulated(*words, hours=HOURS):
        manifest = write(tmp_path, "office.yaml", POOL + hours)
        out = tmp_path / "out.json"
        return tandem("simulate", "-f", manifest, *PROFILE, *QUIET, "--json", str(out), *words), out

    return simulated


@pytest.mark.parametrize(
    ("begin", "prefill"),
    [
        ("2026-11-30T09:00+01:00", 3),
        ("2026-11-30T07:30", 3),
        ("2026-11-30T19:00+01:00", 1),
        ("2026-11-29T09:00+01:00", 1),
    ],
)
def test_the_moment_at_which_time_begins_decides_what_is_in_force(simulated, begin, prefill):
    result, out = simulated("--begin", begin)

    assert result.exit_code == 0, result.output
    [run] = json.loads(out.read_text())["runs"]
    assert run["start"] == {"prefill": prefill, "decode": 1}


@pytest.mark.parametrize("policy", ["hpa", "keda", "hold", "dynamo", "clairvoyant"])
def test_a_policy_that_scales_holds_the_minimum_of_a_schedule_from_its_start(simulated, policy):
    result, out = simulated(*BEFORE, "--policy", policy)

    assert result.exit_code == 0, result.output
    [run] = json.loads(out.read_text())["runs"]
    assert [(each["at_s"], each["role"], each["to"]) for each in run["decisions"]] == [
        (10.0, "prefill", 3)
    ]
    assert "Only tandem starts pods before a schedule begins." in result.stdout


def test_a_fixed_fleet_is_fixed_whatever_a_schedule_holds(simulated):
    result, out = simulated(*BEFORE, "--policy", "static")

    [run] = json.loads(out.read_text())["runs"]
    assert run["decisions"] == []
    assert "before a schedule begins" not in result.stdout


def test_simulated_time_begins_on_a_monday_at_midnight_and_says_so(simulated):
    result, _ = simulated()

    assert "note: simulated time begins at Mon 2024-01-01 00:00 UTC (--begin)." in result.stdout


def test_a_moment_that_is_none_is_refused(simulated):
    result, _ = simulated("--begin", "monday")

    assert "such as 2026-11-30T08:00+01:00; got 'monday'" in sentence(result)


def test_a_schedule_that_the_operator_would_refuse_is_not_simulated(simulated):
    result, _ = simulated(hours=HOURS.replace("0 8", "0 25"))

    assert "spec.scaling.schedules[0].start: '0 25 * * 1-5' names no time" in sentence(result)


def test_lint_finds_a_time_zone_that_does_not_exist(tmp_path):
    manifest = write(tmp_path, "office.yaml", POOL + HOURS.replace("Berlin", "Berlim"))

    result = tandem("lint", manifest)

    assert result.exit_code == 1
    assert "'Europe/Berlim' is no name of the IANA database" in result.output
