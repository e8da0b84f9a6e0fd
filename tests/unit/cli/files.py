"""Files for the commands' tests: a pool, short traces, and what they are called with."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tandem_operator.cli.app import app

PROFILE = ("--profile", "h200-llama-3.1-8b-fp8")
# About two minutes that two fleets of one cannot carry and larger ones can.
SHORT = ("--generate", "poisson", "--rate", "12", "--span", "100s", "--prompt-tokens", "3000")

POOL = """\
apiVersion: tandem-inference.io/v1alpha1
kind: InferencePool
metadata:
  name: chat
  namespace: team
spec:
  model:
    name: llama
    maxModelLen: 32768
    source:
      huggingFace: {repo: meta-llama/Llama-3.1-8B-Instruct}
  slo:
    ttft:
      target: 300ms
      perThousandPromptTokens: 50ms
    tpot:
      target: 20ms
    attainment: 95%
  prefill:
    maxReplicas: 4
  decode:
    maxReplicas: 3
  scaling:
    gpuBudget: 6
"""


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def tandem(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=stdin, prog_name="tandem")


def sentence(result: Result) -> str:
    """Return the sentence of a refusal: on standard error, with exit code 2 and no traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)
    return result.stderr


def failed(result: Result) -> str:
    """Return the error of a command that could not do its work, in a line of its own."""
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    return line


@pytest.fixture
def pool(tmp_path: Path) -> str:
    return write(tmp_path, "pool.yaml", POOL)
