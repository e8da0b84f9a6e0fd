"""`tandem lint FILE...`: the findings of the API server and the operator, without asking either."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from tandem_operator.cli.command_errors import EXIT_BAD_INPUT, EXIT_FAILED
from tandem_operator.cli.input.findings import lint_files
from tandem_operator.cli.input.manifest import STANDARD_INPUT
from tandem_operator.cli.input.options import OUTPUT
from tandem_operator.cli.output.finding_lines import LintFormat, rendered, told_beside
from tandem_operator.workloads.world import Installation, InstalledPrometheus

INSTALLATION = "Installation"
ENDINGS = (".yaml", ".yml", ".json")


def lint(
    ctx: typer.Context,
    *,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Manifests, folders of them, or - for standard input.",
            show_default=False,
        ),
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-R", help="Read subfolders too.")
    ] = False,
    output: Annotated[
        LintFormat,
        typer.Option(
            "--output",
            "-o",
            help="The format: a line for each finding, one JSON object, or annotations of GitHub"
            " Actions.",
            rich_help_panel=OUTPUT,
        ),
    ] = LintFormat.TEXT,
    allow_any_pod_template: Annotated[
        bool,
        typer.Option(
            "--allow-any-pod-template",
            help="Accept what an operator with pools.allowAnyPodTemplate accepts.",
            rich_help_panel=INSTALLATION,
        ),
    ] = False,
    allow_any_extra_args: Annotated[
        bool,
        typer.Option(
            "--allow-any-extra-args",
            help="Accept what an operator with pools.allowAnyExtraArgs accepts.",
            rich_help_panel=INSTALLATION,
        ),
    ] = False,
) -> None:
    """Find what the API server and the operator would refuse, without a cluster.

    Other kinds are skipped. Exit code 1: findings. Exit code 2: a file cannot be read.
    """
    installation = Installation(
        router_image="router",
        launcher_image="launcher",
        engine_image_cpu="engine",
        engine_image_gpu="engine",
        any_pod_template=allow_any_pod_template,
        any_extra_args=allow_any_extra_args,
        cache_host_paths=None,
        # Lint does not know whether the installation has one, so it is no fault to rely on it.
        prometheus=InstalledPrometheus(url="http://prometheus"),
    )
    linted = lint_files(_files(paths, recursive=recursive), installation)
    for line in rendered(linted, output):
        typer.echo(line)
    for sentence in told_beside(linted):
        typer.echo(f"{ctx.command_path}: {sentence}", err=True)
    if linted.unreadable:
        raise typer.Exit(EXIT_BAD_INPUT)
    if linted.findings:
        raise typer.Exit(EXIT_FAILED)


def _files(paths: Sequence[Path], *, recursive: bool) -> Iterator[Path]:
    """Yield the files to check; a file that is named counts whatever its ending is."""
    for path in paths:
        if str(path) == STANDARD_INPUT or not path.is_dir():
            yield path
            continue
        inside = path.rglob("*") if recursive else path.glob("*")
        yield from sorted(each for each in inside if each.suffix in ENDINGS and each.is_file())
