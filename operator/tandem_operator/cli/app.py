"""All commands, with their help texts."""

import errno
import inspect
import os
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from tandem_operator.cli.command_errors import EXIT_FAILED
from tandem_operator.cli.commands.command import TandemCommand
from tandem_operator.cli.commands.diff import diff
from tandem_operator.cli.commands.doctor import doctor
from tandem_operator.cli.commands.explain import explain
from tandem_operator.cli.commands.export import export
from tandem_operator.cli.commands.lint import lint
from tandem_operator.cli.commands.plan import plan
from tandem_operator.cli.commands.record import record
from tandem_operator.cli.commands.simulate import simulate
from tandem_operator.cli.commands.top import top

EPILOGS = {
    "diff": (
        "Examples:",
        "kubectl tandem diff --pool qwen -n chat new.yaml",
        "tandem diff main.yaml branch.yaml --trace azure.csv --profile h200-llama-3.1-8b-fp8"
        " --gpu-hour-price 2.5",
        "git show main:pool.yaml | tandem diff - pool.yaml --generate day --rate 5 --peak 40"
        " --profile h200-llama-3.1-8b-tp1 --markdown comment.md --check",
    ),
    "doctor": (
        "Examples:",
        "kubectl tandem doctor",
        "kubectl tandem doctor -n chat --operator-namespace tandem-system",
        "tandem doctor -o json",
    ),
    "explain": (
        "Examples:",
        "kubectl tandem explain qwen -n chat",
        "kubectl get ipool,events,configmap -n chat -o yaml > saved.yaml;"
        " tandem explain qwen --file saved.yaml",
    ),
    "lint": (
        "Examples:",
        "tandem lint pool.yaml",
        "tandem lint -R deploy --output github",
        "helm template ./my-pools | tandem lint -",
    ),
    "top": (
        "Examples:",
        "kubectl tandem top -A",
        "kubectl tandem top 'chat-*' -n chat --sort budget --interval 5s",
        "tandem top -A -o json",
    ),
    "plan": (
        "Examples:",
        "tandem plan -f pool.yaml --trace azure.csv --profile h200-llama-3.1-8b-fp8"
        " --gpu-hour-price 2.5 --html plan.html",
        "tandem plan -f pool.yaml --generate poisson --rate 20 --span 10m --profile"
        " h200-llama-3.1-70b-tp4 --json",
    ),
    "export": (
        "Examples:",
        "kubectl tandem profile export qwen -n chat -o profile.json",
        "tandem profile export qwen; tandem plan -f pool.yaml --profile qwen-profile.json"
        " --trace qwen-trace.jsonl",
    ),
    "record": (
        "Examples:",
        "kubectl tandem record qwen -n chat -o trace.jsonl",
        "tandem record qwen --since 5m; tandem simulate -f pool.yaml --trace qwen-trace.jsonl"
        " --profile h200-llama-3.1-8b-fp8",
    ),
    "simulate": (
        "Examples:",
        "tandem simulate -f pool.yaml --trace azure.csv --profile h200-llama-3.1-8b-fp8",
        "kubectl tandem simulate --pool qwen --rate-scale 2",
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
profile = typer.Typer(
    help="The speed of a pool's engines, as files for --profile.", no_args_is_help=True
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(metadata.version("tandem-inference"))
        raise typer.Exit


@app.callback()
def about(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            # Without a command the callback below is never called.
            callback=_tell_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Check and simulate pools, plan fleets, compare edits of an SLO, watch and explain pools."""


def _add(to: typer.Typer, function: Callable[..., None]) -> None:
    name = function.__name__
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    help_text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    to.command(name, cls=TandemCommand, help=help_text, epilog="\n\n".join(EPILOGS[name]))(function)


for function in (simulate, plan, diff, top, explain, doctor, record, lint):
    _add(app, function)
_add(profile, export)
app.add_typer(profile, name="profile")


def run() -> None:
    """Run as the program that was called: kubectl finds its plugins as `kubectl-NAME`."""
    called = Path(sys.argv[0]).name
    name = "kubectl tandem" if called == "kubectl-tandem" else "tandem"
    try:
        try:
            app(prog_name=name)
        finally:
            # Python's own flush at exit would report a full disk in other words.
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:
            raise
        if error.errno != errno.EPIPE:
            typer.echo(f"{name}: standard output: cannot be written ({error.strerror})", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
