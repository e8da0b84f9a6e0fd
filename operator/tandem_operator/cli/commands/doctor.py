"""`tandem doctor`: the parts that a cluster has for Tandem, the missing ones, and the remedies."""

import asyncio
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from tandem_operator.cli.command_errors import FailedError
from tandem_operator.cli.commands.command import spelled_out
from tandem_operator.cli.diagnosis.examine import NOT_ALL, examine, exit_code
from tandem_operator.cli.input.cluster_access import (
    CLUSTER,
    ClusterOptions,
    connected,
    plain_errors,
)
from tandem_operator.cli.input.cluster_facts import ClusterFacts
from tandem_operator.cli.input.options import OUTPUT
from tandem_operator.cli.output.check_lines import show_results
from tandem_operator.cli.output.destination import STANDARD_OUTPUT, screen, write_json
from tandem_operator.cli.output.printable import printable


class DoctorFormat(StrEnum):
    """The form of the results."""

    TEXT = "text"
    JSON = "json"


@spelled_out
def doctor(
    ctx: typer.Context,
    *,
    cluster: ClusterOptions,
    operator_namespace: Annotated[
        str,
        typer.Option(
            help="The namespace of the operator, if you may not list Deployments everywhere.",
            rich_help_panel=CLUSTER,
        ),
    ] = "tandem-system",
    output: Annotated[
        DoctorFormat,
        typer.Option(
            "--output",
            "-o",
            help="The format: lines for people, or one JSON object.",
            rich_help_panel=OUTPUT,
        ),
    ] = DoctorFormat.TEXT,
) -> None:
    """Check a cluster for Tandem: versions, rights, GPUs, metrics, images, conditions of pools.

    Changes nothing. Exit code 0: nothing is wrong. 1: problems. 2: some checks, or all, were not
    possible. Checks pools of all namespaces; with -n, only those of one.
    """
    try:
        facts = asyncio.run(_facts(cluster, operator_namespace))
    except FailedError as error:
        typer.echo(f"{ctx.command_path}: {printable(str(error))}", err=True)
        raise typer.Exit(NOT_ALL) from None
    found = examine(facts)
    if output is DoctorFormat.JSON:
        write_json(STANDARD_OUTPUT, {"checks": [asdict(each) for each in found]})
    else:
        show_results(screen(), found)
    raise typer.Exit(exit_code(found))


async def _facts(cluster: ClusterOptions, operator_namespace: str) -> ClusterFacts:
    from tandem_operator.cli.input.cluster_survey import Survey  # noqa: PLC0415

    async with connected(cluster.where("")) as (kube, _):
        survey = Survey(kube, namespace=cluster.namespace, operator_namespace=operator_namespace)
        with plain_errors():
            return await survey.facts()
