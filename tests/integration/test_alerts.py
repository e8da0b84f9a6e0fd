"""The alerts, judged by Prometheus's own tool: their grammar, and when each of them fires."""

import subprocess
from pathlib import Path

import pytest

from e2e.cluster.gobuild import PROMTOOL, build, go_problem, is_built
from manifests.generate import ROOT

CASES = Path(__file__).with_name("alert_cases.yaml")


@pytest.fixture(scope="module")
def promtool() -> str:
    if not is_built(PROMTOOL) and (problem := go_problem()):
        pytest.skip(problem)
    return str(build(PROMTOOL) / "promtool")


def run(*words: str | Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_prometheus_takes_the_rules(promtool: str) -> None:
    rules = ROOT / "manifests" / "alerts.yaml"

    assert run(promtool, "check", "rules", "--lint=all", "--lint-fatal", rules) == ""


def test_alerts_fire_when_their_cases_say(promtool: str) -> None:
    assert run(promtool, "test", "rules", CASES) == ""
