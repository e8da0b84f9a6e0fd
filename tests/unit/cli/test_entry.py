"""The program's own face: its names, its help, and what it says where it came without its extra."""

import subprocess
import sys

import pytest

from tandem_operator.cli.app import app
from tests.unit.cli.files import tandem


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
