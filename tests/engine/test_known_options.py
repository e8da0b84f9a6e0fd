"""Every option of this version of vLLM was read: it is Tandem's, allowed to pools, or refused."""

import json
import subprocess

import pytest

from tandem_operator.api.v1alpha1.extra_args import TANDEMS_OPTIONS
from tandem_operator.workloads.builders.vllm_options import ALLOWED
from tandem_operator.workloads.checks.engine_options import BREAKING, REFUSED, refused_options

LIST_OPTIONS = """
import json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
json.dump([name for action in parser._actions for name in action.option_strings], answers)
"""


@pytest.fixture(scope="module")
def options(python: str) -> set[str]:
    listed = subprocess.run(
        [python, "-c", LIST_OPTIONS], capture_output=True, text=True, check=True, timeout=280
    )
    return set(json.loads(listed.stdout))


def test_no_option_of_vllm_is_unread(options: set[str]) -> None:
    read = ALLOWED | REFUSED.keys() | BREAKING.keys() | {*TANDEMS_OPTIONS, "-h", "--help"}

    assert {name for name in options if not name.startswith("--no-")} - read == set()


def test_no_option_is_listed_that_vllm_does_not_have(options: set[str]) -> None:
    listed = {name.partition(".")[0] for name in ALLOWED | REFUSED.keys() | BREAKING.keys()}

    assert listed - options == set()


def test_no_beginning_that_vllm_takes_for_an_option_that_breaks_a_pool_is_let_by(
    options: set[str],
) -> None:
    breaking = {each for each in (*BREAKING, *TANDEMS_OPTIONS) if each.startswith("--")}
    let_by = set()
    for option in breaking:
        for length in range(len("--x"), len(option)):
            begun = option[:length]
            meant = {each for each in options if each.startswith(begun)}
            if begun not in options and meant <= breaking:
                refused = refused_options((f"{begun}=1",), "extraArgs", any_option=True)
                let_by |= set() if any(refused) else {begun}

    assert let_by == set()
