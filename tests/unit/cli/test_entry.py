"""The program's own face: its names, its help, and what it says where it came without its extra."""

import subprocess
import sys
from importlib import metadata

import pytest

from tandem_operator.cli.app import app
from tests.unit.cli.files import POOL, PROFILE, tandem


def started(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"import sys; {code}"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_without_its_libraries_it_says_what_to_install():
    result = started(
        "sys.modules['typer'] = None; from tandem_operator.cli.__main__ import main; main()"
    )

    assert result.returncode == 1
    assert result.stderr == "tandem needs typer: pip install 'tandem-inference[cli]'\n"


def test_as_a_plugin_it_calls_itself_what_its_user_typed():
    result = started(
        "sys.argv = ['/usr/bin/kubectl-tandem', 'plan', '-f', 'none.yaml', '--profile', 'x'];"
        " from tandem_operator.cli.__main__ import main; main()"
    )

    assert result.returncode == 2
    assert result.stderr.startswith("kubectl tandem plan: none.yaml: cannot be read")


@pytest.mark.parametrize(
    "command", sorted(each.callback.__name__ for each in app.registered_commands)
)
def test_the_help_of_every_command_has_an_example_of_it(command):
    result = tandem(command, "--help")

    assert result.exit_code == 0
    assert "Examples:" in result.stdout
    assert f"tandem {command} " in result.stdout.partition("Examples:")[2]


def test_tells_its_version_without_a_command():
    result = tandem("--version")

    assert result.exit_code == 0
    assert result.stdout == f"{metadata.version('tandem-inference')}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["plan", "--help"],
        ["simulate", "-f", "-", *PROFILE, "--generate", "poisson", "--span", "2s"],
        ["simulate", "-f", "-", *PROFILE, "--generate", "poisson", "--span", "2s", "--json"],
    ],
    ids=" ".join,
)
def test_a_full_disk_behind_standard_output_is_told_in_a_sentence(words):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "tandem_operator.cli", *words],
            input=POOL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=100,
            check=False,
        )

    told = "tandem: standard output: cannot be written (No space left on device)\n"
    assert result.returncode == 1
    assert result.stderr.endswith(told)
    assert "Traceback" not in result.stderr
