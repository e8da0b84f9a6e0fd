"""All commands, with what their help says."""

import inspect
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from tandem_operator.cli.command import Command
from tandem_operator.cli.diff import diff
from tandem_operator.cli.explain import explain
from tandem_operator.cli.plan import plan
from tandem_operator.cli.simulate import simulate

EPILOGS = {
    "diff": (
        "Examples:",
        "tandem diff main.yaml branch.yaml --trace azure.csv --profile h200-llama-3.1-8b-fp8"
        " --gpu-hour-price 2.5",
        "git show main:pool.yaml | tandem diff - pool.yaml --generate day --rate 5 --peak 40"
        " --profile h200-llama-3.1-8b-tp1 --markdown comment.md --check",
    ),
    "explain": (
        "Examples:",
        "kubectl tandem explain qwen -n chat",
        "kubectl get ipool,events,configmap -n chat -o yaml > saved.yaml;"
        " tandem explain qwen --file saved.yaml",
    ),
    "plan": (
        "Examples:",
        "tandem plan -f pool.yaml --trace azure.csv --profile h200-llama-3.1-8b-fp8"
        " --gpu-hour-price 2.5 --html plan.html",
        "tandem plan -f pool.yaml --generate poisson --rate 20 --span 10m --profile"
        " h200-llama-3.1-70b-tp4 --json",
    ),
    "simulate": (
        "Examples:",
        "tandem simulate -f pool.yaml --trace azure.csv --profile h200-llama-3.1-8b-fp8",
        "tandem simulate -f pool.yaml --generate sine --rate 6 --peak 40 --profile"
        " h200-llama-3.1-8b-tp1 --policy tandem --policy keda --html report.html",
    ),
}

app = typer.Typer(
    name="tandem",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Simulate pools, plan fleets, compare edits of an SLO, and explain decisions."""
    if version:
        typer.echo(metadata.version("tandem-inference"))
        raise typer.Exit


for function in (simulate, plan, diff, explain):
    name = function.__name__
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    told = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    app.command(name, cls=Command, help=told, epilog="\n\n".join(EPILOGS[name]))(function)


def run() -> None:
    """Run as the program that was called: kubectl finds its plugins as `kubectl-NAME`."""
    called = Path(sys.argv[0]).name
    app(prog_name="kubectl tandem" if called == "kubectl-tandem" else "tandem")
