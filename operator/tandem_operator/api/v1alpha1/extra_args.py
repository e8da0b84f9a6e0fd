"""One item of `extraArgs`: one option of vLLM, and none that Tandem sets.

The CRD does not know the options that an installation allows: `workloads/checks/engine_options.py`
checks them.
"""

from typing import Annotated

from pydantic import Field

from tandem_operator.api.rules import Rule
from tandem_operator.api.values import text_rule

TANDEMS_OPTIONS = (
    "--model",
    "--revision",
    "--served-model-name",
    "--max-model-len",
    "--dtype",
    "--quantization",
    "-q",
    "--enable-prefix-caching",
    "--no-enable-prefix-caching",
    "--block-size",
    "--max-num-seqs",
    "--kv-cache-memory-bytes",
    "--tensor-parallel-size",
    "-tp",
    "--host",
    "--port",
    "--api-key",
    "--kv-transfer-config",
    "--shutdown-timeout",
    "--config",
    "--disable-log-stats",
    "--enable-log-requests",
    "--headless",
    "--no-disable-uvicorn-access-log",
    "--root-path",
    "--ssl-certfile",
    "--ssl-keyfile",
    "--uds",
)
"""Options that have their own field, or that engines refuse."""


def option_of(argument: str) -> str:
    """The option of an argument as vLLM reads it: `--a_b.c=1` sets `--a-b`."""
    return argument.partition("=")[0].partition(".")[0].replace("_", "-")


ExtraArgument = Annotated[
    str,
    Field(min_length=1, max_length=512),
    text_rule(
        pattern="^--?[A-Za-z][A-Za-z0-9_.+-]*(=.*)?$",
        never=" --[a-z]",
        message=(
            "extraArgs must hold one option per item, in the form --option or"
            " --option=value; write for example --max-num-batched-tokens=4096"
        ),
    ),
    Rule(
        expression=(
            "!(self.split('=')[0].split('.')[0].replace('_', '-') in ["
            + ", ".join(f"'{option}'" for option in TANDEMS_OPTIONS)
            + "])"
        ),
        message=(
            "extraArgs must not set an option that Tandem sets ("
            + ", ".join(TANDEMS_OPTIONS)
            + "); write for example --max-num-batched-tokens=4096"
        ),
        holds=lambda argument: option_of(argument) not in TANDEMS_OPTIONS,
    ),
]
